"""Evenkeel's pages, for an Airflow whose plugins folder this is."""

from evenkeel_ui.plugin import EvenkeelPlugin as EvenkeelPlugin
