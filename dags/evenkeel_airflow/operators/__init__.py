"""Airflow operators of Evenkeel: a Spark job and its variants, and a person's approval.

Each start of a DAG file imports these modules. Spark, Great Expectations and the steps of the
pipeline are therefore imported inside the functions. NumPy and PyArrow come with the specs.
"""

from evenkeel_airflow.operators.approve import Approve as Approve
from evenkeel_airflow.operators.jobs import ApplyWindow as ApplyWindow
from evenkeel_airflow.operators.jobs import Learn as Learn
from evenkeel_airflow.operators.jobs import Migrate as Migrate
from evenkeel_airflow.operators.jobs import PlanJob as PlanJob
from evenkeel_airflow.operators.jobs import Repair as Repair
from evenkeel_airflow.operators.jobs import RollBack as RollBack
from evenkeel_airflow.operators.jobs import Watch as Watch
from evenkeel_airflow.operators.runs import AirflowGateError as AirflowGateError
from evenkeel_airflow.operators.runs import one_line as one_line
from evenkeel_airflow.operators.runs import run_name as run_name
from evenkeel_airflow.operators.runs import task_states as task_states
from evenkeel_airflow.operators.spark_job import SparkJob as SparkJob
from evenkeel_airflow.operators.validate_plan import ValidatePlan as ValidatePlan
