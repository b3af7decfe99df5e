"""The files of a run, of an epoch and of the registry itself: the only place that names them."""

from __future__ import annotations

import hashlib
import re
from datetime import date
from functools import cached_property

from evenkeel.registry.files.folder import Folder
from evenkeel.registry.files.html import Html
from evenkeel.registry.files.migration_records import (
    AttemptNumber,
    MigrationRecord,
    PlanMark,
    PlanSummary,
    Prediction,
    Progress,
    RolledBack,
    Verdict,
    VerifyRecord,
)
from evenkeel.registry.files.outcome_records import GateRecord, JobError, WindowRecord
from evenkeel.registry.files.plan_record import PlanRecord
from evenkeel.registry.files.records import (
    Approval,
    BootstrapRecord,
    ChannelRecord,
    EpochRecord,
    LearningMark,
    Manifest,
    Membership,
    MovingMark,
    ParamsRecord,
    ProfileRecord,
    Question,
    ReleaseRecord,
    SpecChannels,
    WatchDecision,
)
from evenkeel.registry.files.stored_file import FileOf, StoredFile
from evenkeel.registry.files.watch_records import WatchStateRecord
from evenkeel.registry.store import RESTORE, Store
from partitioning.errors import DamagedError
from partitioning.planning.decide import Decision
from partitioning.planning.plan import Plan
from partitioning.workload.profile import Profile, Sketch

#: Folders of the registry beside those of runs and epochs. A file is named by its day, the digest
#: of its plan, its job, its run or its state table. Sketches are in a folder for each way of making
#: them.
SKETCHES, WINDOWS, SPEC_CHANNELS = "sketches", "windows", "spec_channels"
JOB_ERRORS, MOVING, MEMBER_RECORDS, CLAIMS = "errors", "moving", "members", "claims"
DATA_DOCS = "data_docs"


class KeptFiles(Folder):
    """Files that a run leaves, and that the epoch to which it led keeps."""

    #: Parameters of the run.
    params = FileOf("params.json", ParamsRecord)
    profile = FileOf("profile.npz", Profile)
    #: Source of the profile.
    learned = FileOf("profile.json", ProfileRecord)
    decision = FileOf("decision.json", Decision)
    watch_decision = FileOf("watched.json", WatchDecision)
    plan = FileOf("plan.json", Plan, PlanRecord)
    gate_plan = FileOf("gate_plan.json", GateRecord)
    #: The answer, of a person or of the spec's limit.
    approval = FileOf("approval.json", Approval)
    migration = FileOf("migration.json", MigrationRecord)
    gate_tables = FileOf("gate_tables.json", GateRecord)
    verify = FileOf("verify.json", VerifyRecord)
    report = FileOf("report.html", Html)


#: Names of the files that an epoch keeps, and of the one of them that is made again later.
_KEPT = [file.name for file in vars(KeptFiles).values() if isinstance(file, FileOf)]
_REMADE = "report.html"


class RunFiles(KeptFiles):
    """The folder of one run: files that its steps leave for each other and for people."""

    def __init__(self, store: Store, name: str) -> None:
        self.name = name
        super().__init__(store, f"runs/{name}")

    learning = FileOf("learning.json", LearningMark)
    #: The plan that a person was asked about.
    question = FileOf("asked.json", Question)
    progress = FileOf("progress.json", Progress)
    #: Progress of a rollback.
    rolled_back = FileOf("rolled_back.json", RolledBack)
    error = FileOf("error.json", JobError)

    def prediction(self, digest: str) -> StoredFile[Prediction]:
        """Return the file with the predicted cost of the plan of that digest."""
        return StoredFile(self, f"prediction_{digest[:12]}.json", Prediction)

    def attempt(self, digest: str, number: int) -> StoredFile[AttemptNumber]:
        """Return the file that begins an attempt at the plan of that digest, from the second on."""
        return StoredFile(self, f"attempt_{digest[:12]}_{number}.json", AttemptNumber)

    def verdict(self, digest: str, attempt: int) -> StoredFile[Verdict]:
        """Return the file that decides an attempt at the plan of that digest."""
        return StoredFile(self, f"verdict_{digest[:12]}_{attempt}.json", Verdict)

    def withdrawn(self, digest: str) -> StoredFile[PlanMark]:
        """Return the file that withdraws the plan of that digest for good."""
        return StoredFile(self, f"withdrawn_{digest[:12]}.json", PlanMark)


class EpochFiles(KeptFiles):
    """The files that an epoch keeps of the run that led to it, beside its epoch.json.

    A manifest holds the digest of every file that no longer changes. If the copying was killed
    half-way there is no manifest, and the files are read unchecked.
    """

    def __init__(self, store: Store, number: int) -> None:
        super().__init__(store, f"epochs/{number:08d}")

    epoch = FileOf("epoch.json", EpochRecord)
    manifest = FileOf("kept.json", Manifest)
    prediction = FileOf("prediction.json", Prediction)
    plan_summary = FileOf("plan.json", PlanSummary)

    def keep(self, run: RunFiles, digest: str) -> None:
        """Copy the files of the run that has carried out the plan of that digest.

        The epoch is complete without them.
        """
        names = {name: name for name in _KEPT} | {run.prediction(digest).name: self.prediction.name}
        files = {kept: run.read(name) for name, kept in names.items() if run.exists(name)}
        sums = {n: hashlib.sha256(d).hexdigest() for n, d in files.items() if n != _REMADE}
        # A file that is kept again may have changed, and this may be killed before its new sum.
        self.forget_digests(*(n for n, sum_ in sums.items() if self._digests.get(n) != sum_))
        for name, data in files.items():
            self.write(name, data)
        self.manifest.write(Manifest(sha256=sums))
        self._digests = sums

    def find(self, file: str) -> bytes | None:
        """Return the file's bytes; None: it is missing.

        Raises
        ------
        DamagedError : it is not the file that was kept
        """
        data = super().find(file)
        if data is None or file == self.manifest.name:
            return data
        known = self._digests.get(file)
        if known is not None and hashlib.sha256(data).hexdigest() != known:
            raise DamagedError(
                "torn or edited: not the file that was kept", self.path(file), RESTORE
            )
        return data

    def forget_digests(self, *files: str) -> None:
        """Take files out of the manifest, so that they may be changed or removed.

        From then on they are read unchecked.
        """
        found = self.manifest.find()
        if found is None or found.sha256.keys().isdisjoint(files):
            return
        left = {name: digest for name, digest in found.sha256.items() if name not in files}
        self.manifest.write(Manifest(sha256=left))
        self._digests = left

    @cached_property
    def _digests(self) -> dict[str, str]:
        found = self.manifest.find()
        return {} if found is None else found.sha256


class RegistryFiles(Folder):
    """The files of a table that belong to no run and to no epoch."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, "")

    bootstrap = FileOf("bootstrap.json", BootstrapRecord)
    #: The tables are the team's again.
    released = FileOf("released.json", ReleaseRecord)
    watch = FileOf("watch.json", WatchStateRecord)
    #: The list of the pages beside it, newest first.
    docs_index = FileOf(f"{DATA_DOCS}/index.html", Html)

    def docs_page(self, page: str) -> StoredFile[Html]:
        """Return the page of one validation by a gate: its time, run, suite and verdict."""
        return StoredFile(self, f"{DATA_DOCS}/{page}", Html)

    def sketch(self, made: str, day: date | str) -> StoredFile[Sketch]:
        """Return the sketch of one UTC day. Its folder is named by how it was made.

        The name is short for all that a sketch depends on besides the day.
        """
        return StoredFile(self, f"{SKETCHES}/{made}/{day}.npz", Sketch)

    def sketch_folders(self) -> list[str]:
        """List the folders of sketches."""
        return self._store.names(SKETCHES)

    def sketched_days(self, made: str) -> list[str]:
        """List the days that have a sketch in such a folder, ascending."""
        return self._listed(f"{SKETCHES}/{made}", ".npz")

    def window(self, end: date | str) -> StoredFile[WindowRecord]:
        """Return the record of the window that ends before that day."""
        return StoredFile(self, f"{WINDOWS}/{end}.json", WindowRecord)

    def window_ends(self) -> list[date]:
        """List the ends of the windows that have a record, ascending."""
        names = self._listed(WINDOWS)
        return [date.fromisoformat(n) for n in names if re.fullmatch(r"\d{4}-\d{2}-\d{2}", n)]

    def member(self, name: str) -> StoredFile[Membership]:
        """Return the record of a state table that joined or left since the epoch."""
        return StoredFile(self, f"{MEMBER_RECORDS}/{name}.json", Membership)

    def members(self) -> list[str]:
        """List the names of the state tables that have such a record, also from earlier epochs."""
        return self._listed(MEMBER_RECORDS)

    def moving(self, run: str) -> StoredFile[MovingMark]:
        """Return the mark of a run that began to move rows."""
        return StoredFile(self, f"{MOVING}/{run}.json", MovingMark)

    def moving_runs(self) -> list[str]:
        """List the names of the runs that have such a mark."""
        return self._listed(MOVING)

    def claim(self, number: int) -> StoredFile[PlanMark]:
        """Return the file that names the one plan that may publish an epoch of Iceberg tables."""
        return StoredFile(self, f"{CLAIMS}/{number}.json", PlanMark)

    def claimed_epochs(self) -> list[int]:
        """List the numbers of the epochs that have such a file, ascending."""
        return sorted(int(name) for name in self._listed(CLAIMS) if name.isdecimal())

    def spec_channels(self, digest: str) -> StoredFile[list[ChannelRecord]]:
        """Return the file with the spec's channels when the plan of that digest was published.

        It is not in the epoch's folder, because it is written before the epoch. So every epoch has
        it.
        """
        return StoredFile(self, f"{SPEC_CHANNELS}/{digest}.json", SpecChannels)

    def error(self, job: str) -> StoredFile[JobError]:
        """Return the file with the newest error of a job without a run."""
        return StoredFile(self, f"{JOB_ERRORS}/{job}.json", JobError)

    def failed_jobs(self) -> list[str]:
        """List the names of the jobs that have left such an error."""
        return self._listed(JOB_ERRORS)

    def _listed(self, folder: str, ending: str = ".json") -> list[str]:
        """List the files of a folder that end so, by what names them."""
        names = self._store.names(folder)
        return [n.removesuffix(ending) for n in names if n.endswith(ending)]
