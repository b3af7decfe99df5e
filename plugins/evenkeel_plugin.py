"""Give Evenkeel's pages to an Airflow that has this folder as its plugins folder."""

from evenkeel_ui.plugin import EvenkeelPlugin as EvenkeelPlugin
