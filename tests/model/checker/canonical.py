"""States that act alike made one: small versions, jobs in one order, plans and attempts renamed."""

from __future__ import annotations

from tests.model.state import Proc, Run, State, Table


def in_order(state: State) -> State:
    """Return the one state that stands for all that act alike: small versions, jobs in one order,
    plans and attempts renumbered."""
    return _renamed(small_versions(state))


def small_versions(state: State) -> State:
    """Return the state with versions made small and jobs in one order: what differs in neither
    acts alike."""
    tables = []
    procs = state.procs
    for t, table in enumerate(state.tables):
        if table.count or table.back:
            table, procs = _small(table, t, procs)
        held = {p.held for p in procs if p.held >= 0 and p.table == t}
        if not held:
            tables.append(table if table.version == 1 else table._replace(spent=0, version=1))
            continue
        rank = {v: i for i, v in enumerate(sorted({table.spent, table.version, *held}))}
        if rank[table.version] != table.version or rank[table.spent] != table.spent:
            table = table._replace(spent=rank[table.spent], version=rank[table.version])
            procs = tuple(
                p._replace(held=rank[p.held]) if p.held >= 0 and p.table == t else p for p in procs
            )
        tables.append(table)
    if len(procs) > 1:
        procs = tuple(sorted(procs))
    return State(state.epochs, tuple(tables), state.runs, state.plans, procs, state.hands)


def _small(table: Table, t: int, procs: tuple[Proc, ...]) -> tuple[Table, tuple[Proc, ...]]:
    """Make the numbers of windows and RESTOREs small: only their order counts."""
    own = [p.seen[t] for p in procs if p.seen]
    counts = {n: i for i, n in enumerate(sorted({table.count, *(s[1] for s in own)}))}
    backs = {n: i for i, n in enumerate(sorted({table.back, *(s[2] for s in own)}))}
    table = table._replace(count=counts[table.count], back=backs[table.back])

    def small(proc: Proc) -> Proc:
        if not proc.seen:
            return proc
        until, count, back = proc.seen[t]
        here = (until, counts[count], backs[back])
        return proc._replace(seen=(*proc.seen[:t], here, *proc.seen[t + 1 :]))

    return table, tuple(map(small, procs)) if own else procs


def _renamed(state: State) -> State:
    """Forget plans that no job can meet any more, and number the others anew: a file that names
    another plan than its run's reads like no file."""
    known = [i for i, p in enumerate(state.plans, 1) if p is not None]
    if not known:
        return state
    by_run = [{run.plan} for run in state.runs]
    for proc in state.procs:
        for number in {proc.plan, *(p for p, _ in proc.runs)} - {0}:
            plan = state.plans[number - 1]
            assert plan is not None
            by_run[plan.run if proc.run < 0 else proc.run].add(number)
    used = set().union(*by_run)
    for table in state.tables:
        used.update(table.movers)
    used.discard(0)
    state = _attempts(state, used)
    runs = tuple(
        run
        if run.plan
        and (not run.mark or run.mark >> 1 in own)
        and (not run.migration or run.migration == 1 or run.migration >> 1 in own)
        and (not run.verified or run.verified in own)
        else Run(
            run.plan,
            run.mark if run.mark >> 1 in own else 0,
            run.migration if run.migration >> 1 in own else run.migration & 1,
            run.gate,
            run.verified if run.verified in own else 0,
        )
        for run, own in zip(state.runs, by_run, strict=True)
    )
    kept = runs == state.runs and all(e in used or not e for e in state.epochs)
    last_used = all(t.last in used or not t.last for t in state.tables)
    if kept and last_used and len(used) == len(known) == known[-1]:
        return state
    name = {0: 0, **{old: new for new, old in enumerate(sorted(used), 1)}}
    plans = [state.plans[old - 1] for old in sorted(used)]
    return State(
        tuple(name.get(e, 0) for e in state.epochs),
        tuple(
            t._replace(last=name.get(t.last, 0), movers=tuple(sorted(name[m] for m in t.movers)))
            for t in state.tables
        ),
        tuple(
            Run(
                name[r.plan],
                name[r.mark >> 1] * 2 + (r.mark & 1),
                name[r.migration >> 1] * 2 + (r.migration & 1),
                r.gate,
                name[r.verified],
            )
            for r in runs
        ),
        (*plans, *(None,) * (len(state.plans) - len(plans))),
        tuple(
            p._replace(plan=name[p.plan], runs=tuple((name[i], n) for i, n in p.runs))
            for p in state.procs
        ),
        state.hands,
    )


def _attempts(state: State, used: set[int]) -> State:
    """Number anew the attempts that a job holds, or that are the newest: only their order counts,
    and each between two of them was rolled back."""
    plans = procs = None
    for i in used:
        plan = state.plans[i - 1]
        if plan is None or len(plan.verdicts) == 1:
            continue
        own = [p for p in state.procs if p.plan == i and p.attempt]
        settled = {n for p in state.procs for j, n in p.runs if j == i}
        kept = {plan.attempt, *(p.attempt for p in own), *settled}
        kept |= {p.attempt + 1 for p in own if p.at == "next attempt"}
        kept |= {plan.marked} if plan.mark else set()
        if kept >= set(range(1, len(plan.verdicts) + 1)):
            continue
        rank = {0: 0, **{n: r for r, n in enumerate(sorted(kept), 1)}}
        there = [n for n in sorted(kept) if n <= len(plan.verdicts)]
        plans = list(state.plans) if plans is None else plans
        plans[i - 1] = plan._replace(
            attempt=rank[plan.attempt],
            verdicts=tuple(plan.verdicts[n - 1] for n in there),
            marked=rank[plan.marked] if plan.mark else 0,
        )
        procs = [
            p._replace(
                attempt=rank[p.attempt] if p.plan == i else p.attempt,
                runs=tuple((j, rank[n] if j == i else n) for j, n in p.runs),
            )
            for p in (state.procs if procs is None else procs)
        ]
    if plans is None or procs is None:
        return state
    return state._replace(plans=tuple(plans), procs=tuple(procs))
