"""A Spark job of Evenkeel as a task: how it is submitted, found again, and how it fails.

With `EVENKEEL_SPARK` in the worker's environment, a job runs in a Spark that stays up.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowException
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from evenkeel.extras import CANNOT_START, check_spark_here
from evenkeel.shared_spark import SharedSpark
from evenkeel.submit import NO_JAVA, RM_ADDRESS, check_java, check_own_driver, job_command, job_file
from evenkeel_airflow.airflow_versions import REMEMBERS_DRIVERS, AirflowFailException
from evenkeel_airflow.operators.defaults import with_retries
from evenkeel_airflow.operators.driver_python import driver_python
from evenkeel_airflow.operators.lineage import Lineage
from evenkeel_airflow.operators.runs import AirflowGateError, check_conf, one_line, run_name
from evenkeel_airflow.operators.spark_connection import hook_of
from partitioning.errors import SetupError

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    from evenkeel.registry.files.outcome_records import JobError

#: Where Airflow keeps, over the tries of a task, which of them submitted the driver.
_SUBMITTED_BY = "evenkeel_attempt"
#: There, too: how many tries the task had at most when its driver was submitted, and that driver.
#: To clear a task that has ended raises the number.
_SUBMISSION = "evenkeel_submission"


class SparkJob(Lineage, SparkSubmitOperator):
    """Run `spark_jobs/<job>.py` by spark-submit, through the connection `spark_default`.

    Parameters
    ----------
    job : name of the job
    arguments : option -> value (a template); an option whose value renders empty is left out
    """

    def __init__(self, *, job: str, arguments: Mapping[str, str], **kwargs: Any) -> None:
        # Airflow gives each try of a task an id of its own.
        given = {**arguments, "--attempt": "{{ ti.id }}"}
        super().__init__(
            application=job_file(job),
            application_args=[part for pair in given.items() for part in pair],
            name=f"evenkeel {job}",
            **with_retries(kwargs),
        )
        self.job = job
        self._process: subprocess.Popen[str] | None = None
        #: Whether this try has found an earlier driver, or submitted one.
        self._has_driver = False
        #: Whether nobody has cleared the task since that driver was submitted.
        self._of_this_run = False

    def render_template(
        self, content: Any, context: Any, jinja_env: Any = None, seen_oids: Any = None
    ) -> Any:
        """Render a template; the job's arguments as text, whatever their DAG renders.

        A DAG of `render_template_as_native_obj=True` would make a UUID of the id of a try, a number
        of a digest, and so on. A command line takes text alone.
        """
        dag = self.get_dag()
        if content is not self.application_args or dag is None:
            return super().render_template(content, context, jinja_env, seen_oids)
        env = dag.get_template_env(force_sandboxed=True)
        rendered = [
            env.from_string(part).render(context)
            if isinstance(part, str)
            else super(SparkJob, self).render_template(part, context, jinja_env, seen_oids)
            for part in content
        ]
        return [part if part is None else str(part) for part in rendered]

    def execute(self, context: Any) -> None:
        """Submit the job, or run it in a Spark that stays up, and wait for it.

        A job that fails leaves `error.json`. If it says that a retry cannot help (wrong input, a
        fence, a gate), the task fails at once with its message. Otherwise Airflow tries again: the
        store or the cluster was unreachable, or the job was killed and left nothing.
        """
        given, shared = self._given(), SharedSpark.of_environment()
        with one_line():
            # Rows that have moved must go on or back, whatever the conf of their run.
            if "--digest" not in given:
                check_conf(context, self.get_dag())
            check_own_driver()
            if shared is not None:
                # The job is a program of this Python.
                check_spark_here()
            if "--run" in given:
                first = self.job in ("learn", "watch")
                given["--run"] = run_name(given["--spec"], self.dag_id, given["--run"], first)
        self.application_args = [part for pair in given.items() for part in pair]
        try:
            if shared is None:
                super().execute(context)
            else:
                self._run_in(shared)
        except AirflowFailException:
            # The connection is wrong: nothing was submitted.
            raise
        except (AirflowException, RuntimeError):
            # RuntimeError: the hook has seen the driver end badly on the cluster.
            left = self._error_left(context)
            if left is not None and not left.retry:
                self.gate_failed = left.kind == "GateError"
                failed = AirflowGateError if self.gate_failed else AirflowFailException
                raise failed(left.message) from None
            if left is None:
                with one_line():
                    self._check_start()
            raise
        except (FileNotFoundError, PermissionError):
            if shared is None:
                with one_line():
                    self._check_submit()
            raise

    def _check_start(self) -> None:
        """Look why a job ended before it could leave an error file; a killed one is tried again."""
        hook = self._hook
        process = hook and hook._submit_sp
        if process and process.returncode == CANNOT_START:
            driver = hook._conf.get("spark.pyspark.driver.python")
            if driver == sys.executable:
                # It was this Python: the same check says what to do.
                check_spark_here()
            what = f"the job {self.job} did not start: its Python lacks a package, or has a mixture"
            raise SetupError(what, fix="Read the line `evenkeel: error:` above, in this log")
        if hook and process and process.returncode == NO_JAVA:
            check_java({**os.environ, **(hook._env or {})})

    def _check_submit(self) -> None:
        """Look for spark-submit; Airflow's hook takes it from PATH alone."""
        from evenkeel.doctor import Status
        from evenkeel.doctor.airflow_setup import submit_on_path

        row = submit_on_path(str(self._get_hook()._connection["spark_binary"]))
        if row.status is Status.wrong:
            raise SetupError(row.found, row.what, row.fix)

    def _run_in(self, shared: SharedSpark) -> None:
        """Run the job in a Spark that stays up, as a process on this machine."""
        self.log.info("%s runs in the Spark of %s", self.job, shared.folder)
        with subprocess.Popen(
            job_command(self.job, self.application_args or []),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as self._process:
            assert self._process.stdout is not None
            try:
                for line in self._process.stdout:
                    self.log.info(line.rstrip())
            except BaseException:
                # The task's time is up: to leave the block would wait for the job.
                self._process.terminate()
                raise
        if self._process.returncode:
            code = self._process.returncode
            raise AirflowException(f"the job {self.job} ended with {code}. Read its output above")

    def on_kill(self) -> None:
        """End the job."""
        if self._process is None:
            super().on_kill()
        else:
            self._process.terminate()

    def _given(self) -> dict[str, str]:
        """Return option -> value of the job, without options whose value renders empty."""
        args = self.application_args or []
        pairs = zip(args[::2], args[1::2], strict=True)
        return {option: value for option, value in pairs if value not in ("", None)}

    def submit_job(self, context: Any) -> str | None:
        """Submit a driver that later tries of the task find again, and note which try did so.

        Airflow calls this in cluster mode alone, and only if no earlier driver is still at work.
        """
        if (store := context.get("task_state_store")) is not None:
            store.set(_SUBMITTED_BY, self._given()["--attempt"])
        self._has_driver = True
        driver = super().submit_job(context)
        if store is not None:
            store.set(_SUBMISSION, [_tries(context), driver])
        return driver

    def get_job_status(self, external_id: Any, context: Any) -> str:
        """Return what the cluster says of an earlier driver, "FORGOTTEN" if it knows it no more."""
        try:
            status = str(super().get_job_status(external_id, context))
        except RuntimeError as error:
            # A resource manager that was started again, or has had many applications since.
            if "returned HTTP 404" in str(error):
                return "FORGOTTEN"
            raise
        self._has_driver = True
        store = context.get("task_state_store")
        submission = store and store.get(_SUBMISSION)
        self._of_this_run = submission == [_tries(context), external_id]
        return status

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        """Wait for a driver, and remember it for a stop also if an earlier try has submitted it."""
        if getattr(self._hook, "_yarn_track_via_rm_api", False):
            self._hook._yarn_application_id = str(external_id)
        super().poll_until_complete(external_id, context)

    def is_job_succeeded(self, status: str) -> bool:
        """Return whether a driver has ended well, of an earlier try of this very run of the task.

        One of before the task was cleared says nothing: Airflow would take it for the result of
        this try, and do nothing. A job that has nothing left to do ends at once.
        """
        return self._of_this_run and super().is_job_succeeded(status)

    def _get_hook(self) -> SparkSubmitHook:
        """Return Airflow's hook, with what only the connection can tell."""
        with one_line():
            hook = hook_of(super()._get_hook, self._conn_id)
        connection = hook._connection
        if connection["deploy_mode"] != "cluster":
            env = {**os.environ, **(hook._env_vars or {})}
            for setting, value in driver_python(connection["master"], env).items():
                hook._conf.setdefault(setting, value)
        elif "yarn" in connection["master"]:
            self._track_on_yarn(hook)
        elif "k8s" in connection["master"]:
            with one_line():
                self._check_no_second_driver()
        return hook

    def _check_no_second_driver(self) -> None:
        """Refuse drivers in pods of their own if a retry may come: it would not find them.

        Airflow can follow such a pod, but takes one that is gone for one that has ended well.
        """
        if self.retries:
            raise SetupError(
                "expected deploy mode client on Kubernetes, found cluster: if a worker dies, its "
                "driver goes on, and the retry would submit a second one beside it",
                f"connection {self._conn_id}",
                "Set deploy-mode to client in its extra, or give the task retries=0",
            )
        self.log.warning(
            "Clear this task only once its driver's pod has ended: a second driver would run "
            "beside it"
        )

    def _track_on_yarn(self, hook: SparkSubmitHook) -> None:
        """Let a retry find the driver again on YARN, if the connection says where to ask."""
        why = "this Airflow is older than 3.3"
        if not hasattr(hook, "_is_yarn_cluster_mode"):
            why = "Airflow's Spark provider is older than 6.2"
        elif hook.get_connection(self._conn_id).extra_dejson.get(RM_ADDRESS):
            self._yarn_track_via_rm_api = hook._yarn_track_via_rm_api = True
            if REMEMBERS_DRIVERS:
                return
        else:
            self.durable = False
            why = f"the connection {self._conn_id} has no {RM_ADDRESS} in its extra"
        self.log.warning("A retry cannot find this driver again: %s", why)

    def _error_left(self, context: Any) -> JobError | None:
        from evenkeel.registry.epochs import Registry
        from evenkeel.registry.job_error import error_left
        from evenkeel.spec.loading import load_spec

        given = self._given()
        # The driver has the id of the try that submitted it, which may be an earlier one.
        store = context.get("task_state_store") if self._has_driver else None
        attempt = (store and store.get(_SUBMITTED_BY)) or given["--attempt"]
        with one_line():
            # A spec that cannot be read fails the task here with the job's own message.
            registry = Registry(load_spec(given["--spec"]).registry)
            return error_left(registry, self.job, given.get("--run"), attempt)


def _tries(context: Any) -> int:
    return int(context["ti"].max_tries)
