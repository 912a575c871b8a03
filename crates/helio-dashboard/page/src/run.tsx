// A training run: its metrics, where its ranks' steps go, checkpoints on their way, attempts and replica groups.
import type { JSX } from "preact";
import type { TrainingRun as Run } from "./answers";
import { Metrics } from "./curves";
import type { Drawn } from "./curves";
import { now } from "./api";
import { Host } from "./machines";
import { Card, Figures, Id, Problem, State, Table, count, duration, moment } from "./show";
import { Steps } from "./steps";

export function seconds(amount: number): string {
  return duration(1000 * amount);
}

export function stateOf(run: Run): string {
  return run.is_left ? "driver ended" : run.seen.state;
}

export function tookOf(run: Run): number {
  return (run.seen.finished_at ?? run.written_at) - run.seen.started_at;
}

/** What the curves of a run are drawn with: in red what failed, in green that another attempt has begun. */
export function drawn(run: Run): Drawn {
  const { attempts, replacements, started_at } = run.seen;
  const marks = [
    ...attempts.filter(({ cause, ended_at }) => cause && ended_at).map(({ ended_at }) => ({ at: ended_at! - started_at, bad: true })),
    ...replacements.map(({ at }) => ({ at: at - started_at, bad: true })),
    ...attempts.filter(({ number }) => number > 0).map(({ at }) => ({ at: at - started_at, bad: false })),
  ];
  return { run_id: run.run_id, name: run.name, marks };
}

function Checkpoints({ run }: { run: Run }): JSX.Element {
  const { storing, checkpoints } = run.seen;
  const rows = [
    ...storing.map(({ report, ranks, since }) => ({
      name: `report ${report + 1}`,
      state: "uploading",
      ranks: ranks.join(", "),
      took: run.written_at - since,
    })),
    ...checkpoints.map(({ name, in_flight_s }) => ({ name, state: "stored", ranks: "all", took: in_flight_s })).reverse(),
  ];
  return (
    <Card title="Checkpoints">
      <Table
        label="Checkpoints"
        empty="No checkpoint has been reported."
        rows={rows}
        columns={[
          { title: "State", of: (row) => row.state },
          { title: "Checkpoint", of: (row) => <code>{row.name}</code> },
          { title: "Ranks", of: (row) => row.ranks },
          { title: "Upload", of: (row) => seconds(row.took), number: true },
        ]}
      />
    </Card>
  );
}

/** A row for the process of each rank, which leads to its pages. */
function Ranks({ run }: { run: Run }): JSX.Element | null {
  // A run of an earlier release tells nothing of them.
  const { ranks = [], workers, finished_at } = run.seen;
  if (ranks.length === 0) return null;
  const isOver = run.is_left || finished_at !== null;
  const last = (at: number | null) => (at === null ? "none yet" : isOver ? moment(1000 * at) : `${seconds(Math.max(0, now() / 1000 - at))} ago`);
  return (
    <Card title="Ranks" more={workers > ranks.length && <span class="dim">{`${ranks.length} of ${workers}, those that do not run before others`}</span>}>
      <Table
        label="Ranks"
        empty=""
        rows={ranks}
        columns={[
          { title: "Rank", of: (row) => row.rank, number: true },
          { title: "State", of: (row) => <State of={run.is_left && row.state === "running" ? "ENDED" : row.state.toUpperCase()} /> },
          { title: "Node", of: (row) => <Host of={row.node_id} named={row.host} /> },
          { title: "Process", of: (row) => (row.worker_id ? <a href={`#/workers/${row.worker_id}`}>{row.pid}</a> : row.pid), number: true },
          { title: "Reports", of: (row) => count(row.reports), number: true },
          { title: "Last report", of: (row) => <span class="moment">{last(row.reported_at)}</span>, number: true },
          { title: "Restarts", of: (row) => row.restarts || "", number: true },
          { title: "Actor", of: (row) => <Id of={row.actor_id} to="actors" /> },
        ]}
      />
    </Card>
  );
}

/** Restarts, and groups that have grown or shrunk; of a run with one attempt there is nothing to say. */
function Attempts({ run }: { run: Run }): JSX.Element | null {
  const { attempts, started_at } = run.seen;
  if (attempts.length === 1 && attempts[0]!.cause === null) return null;
  return (
    <Card title="Restarts">
      <Table
        label="Attempts"
        empty="No attempt has started."
        rows={[...attempts].reverse()}
        columns={[
          { title: "Attempt", of: (row) => row.number + 1 },
          { title: "Started after", of: (row) => seconds(row.at - started_at), number: true },
          { title: "Workers", of: (row) => row.workers, number: true },
          { title: "From", of: (row) => <code>{row.from ?? "scratch"}</code> },
          { title: "Ended after", of: (row) => (row.ended_at === null ? "" : seconds(row.ended_at - started_at)), number: true },
          { title: "Failure", of: (row) => row.cause ?? "" },
          { title: "Recovered in", of: (row) => (row.recovered_s === null ? "" : seconds(row.recovered_s)), number: true },
        ]}
      />
    </Card>
  );
}

function Groups({ run }: { run: Run }): JSX.Element | null {
  const { quorum, replacements, started_at } = run.seen;
  if (!quorum) return null;
  const isIn = (group: number) => quorum.groups.includes(group);
  return (
    <Card title="Replica groups">
      <p>
        {quorum.groups.length} of {quorum.of} in quorum {quorum.number}
        {quorum.step !== null && `, from step ${quorum.step} on`}:{" "}
        {[...Array(quorum.of).keys()].map((group) => (
          <span class={`state ${isIn(group) ? "good" : "bad"}`}> group {group} {isIn(group) ? "in" : "out"} </span>
        ))}
      </p>
      <Table
        label="Replacements"
        empty="No group was lost."
        rows={[...replacements].reverse()}
        columns={[
          { title: "Lost after", of: (row) => seconds(row.at - started_at) },
          { title: "Group", of: (row) => row.group },
          { title: "Cause", of: (row) => row.title },
          { title: "Back after", of: (row) => (row.replaced_s === null ? "not yet" : seconds(row.replaced_s)) },
        ]}
      />
    </Card>
  );
}

export function One({ run }: { run: Run }): JSX.Element {
  const { seen } = run;
  return (
    <section>
      <h2>
        {run.name} <State of={stateOf(run).toUpperCase()} />
      </h2>
      <Figures
        of={[
          ["Duration", seconds(tookOf(run))],
          ["Workers", seen.workers],
          ["Reports", <>{count(seen.reports)} {seen.reports_per_s ? <small>{`${Number(seen.reports_per_s.toPrecision(3))}/s`}</small> : ""}</>],
          ["Failures", seen.failures, seen.failures ? "bad" : undefined],
          ["Checkpoints", count(seen.checkpoint_count)],
          ["Started", <small>{moment(1000 * seen.started_at)}</small>],
          ["Job", <small><Id of={run.job_id} to="jobs" /></small>],
        ]}
      />
      {seen.state === "failed" && <Problem text={seen.attempts[seen.attempts.length - 1]?.cause ?? undefined} />}
      <p class="dim wrap">
        Stored in <code>{seen.path}</code>
      </p>
      <Metrics runs={[drawn(run)]} />
      {seen.times.length > 0 && <Steps phases={seen.phases} lanes={seen.times.map((times) => ({ name: `rank ${times.rank}`, times }))} />}
      <Ranks run={run} />
      <Groups run={run} />
      <Checkpoints run={run} />
      <Attempts run={run} />
      <details>
        <summary>Summary as text</summary>
        <pre class="message">{run.text}</pre>
      </details>
    </section>
  );
}
