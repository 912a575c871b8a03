// Training runs while they go on: where the ranks' steps go, checkpoints on their way, and replica groups.
import type { JSX } from "preact";
import { json, useAsked } from "./api";
import { Card, Problem, State, Table, duration, moment } from "./show";

interface Times {
  rank: number;
  steps: number;
  spent: number[];
}

interface Run {
  name: string;
  run_id: string;
  is_over: boolean;
  is_left: boolean;
  text: string;
  written_at: number;
  seen: {
    state: string;
    path: string;
    started_at: number;
    finished_at: number | null;
    workers: number;
    reports: number;
    failures: number;
    metrics: Record<string, number>;
    phases: string[];
    times: Times[];
    storing: { report: number; ranks: number[]; since: number }[];
    checkpoints: { name: string; at: number; in_flight_s: number }[];
    quorum: { number: number; step: number | null; groups: number[]; of: number } | null;
    replacements: { at: number; group: number; title: string; replaced_s: number | null }[];
  };
}

// Waiting for others comes last, so that the ranks' own times begin at one line.
const WAITING = "communication";
const WIDTH = 1000;
const LANE = 20;
const LEFT = 70;

function seconds(amount: number): string {
  return duration(1000 * amount);
}

/** Of a part of a step, which may be far below a millisecond. */
function milliseconds(amount: number): string {
  return `${Number((1000 * amount).toPrecision(3))} ms`;
}

/** A bar for each rank, its phases in the order of a step. */
function Steps({ run }: { run: Run }): JSX.Element {
  const { phases, times } = run.seen;
  const total = (one: Times) => one.spent.reduce((a, b) => a + b, 0);
  const longest = Math.max(...times.map(total)) || 1;
  const order = phases.map((_, at) => at).filter((at) => phases[at] !== WAITING);
  order.push(phases.indexOf(WAITING));
  return (
    <Card title={`Steps, up to ${milliseconds(longest)}`}>
      <svg class="steps" viewBox={`0 0 ${WIDTH} ${LANE * times.length}`} role="img" aria-label="Times of a step, by rank">
        {times.map((one, lane) => {
          let x = LEFT;
          return (
            <>
              <text x={LEFT - 8} y={lane * LANE + 14} text-anchor="end">
                rank {one.rank}
              </text>
              {order.map((phase) => {
                const width = (one.spent[phase]! / longest) * (WIDTH - LEFT);
                x += width;
                return (
                  <rect class={`phase-${phase}`} x={x - width} y={lane * LANE + 2} width={width} height={LANE - 5}>
                    <title>{`rank ${one.rank}, ${phases[phase]}: ${milliseconds(one.spent[phase]!)} of ${milliseconds(total(one))}`}</title>
                  </rect>
                );
              })}
            </>
          );
        })}
      </svg>
      <p class="legend">
        {phases.map((name, phase) => (
          <span>
            <i class={`phase-${phase}`} /> {name}
          </span>
        ))}
      </p>
    </Card>
  );
}

function Checkpoints({ run }: { run: Run }): JSX.Element {
  const { storing, checkpoints } = run.seen;
  const rows = [
    ...storing.map(({ report, ranks, since }) => ({
      name: `of report ${report + 1}`,
      state: "on its way",
      ranks: ranks.join(", "),
      took: run.written_at - since,
    })),
    ...checkpoints.map(({ name, in_flight_s }) => ({ name, state: "stored", ranks: "all", took: in_flight_s })).reverse(),
  ];
  return (
    <Card title="Checkpoints">
      <Table
        label="Checkpoints"
        empty="None was reported."
        rows={rows}
        columns={[
          { title: "State", of: (row) => row.state },
          { title: "Checkpoint", of: (row) => <code>{row.name}</code> },
          { title: "Ranks", of: (row) => row.ranks },
          { title: "In flight", of: (row) => seconds(row.took) },
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
          <span class={`state ${isIn(group) ? "good" : "bad"}`}> group {group} {isIn(group) ? "trains" : "is out"} </span>
        ))}
      </p>
      <Table
        label="Replacements"
        empty="No group was lost."
        rows={[...replacements].reverse()}
        columns={[
          { title: "After", of: (row) => seconds(row.at - started_at) },
          { title: "Group", of: (row) => row.group },
          { title: "Cause", of: (row) => row.title },
          { title: "In again", of: (row) => (row.replaced_s === null ? "not yet" : `after ${seconds(row.replaced_s)}`) },
        ]}
      />
    </Card>
  );
}

function One({ run }: { run: Run }): JSX.Element {
  const { seen } = run;
  const took = (seen.finished_at ?? run.written_at) - seen.started_at;
  const state = run.is_left ? "its driver has ended" : seen.state;
  return (
    <section>
      <h2>
        {run.name} <State of={state.toUpperCase()} />
      </h2>
      <p class="dim">
        Began {moment(1000 * seen.started_at)}, {seconds(took)}; {seen.workers} workers, {seen.reports} reports, {seen.failures} failures;{" "}
        <code>{seen.path}</code>
      </p>
      <p>
        {Object.entries(seen.metrics).map(([name, value]) => (
          <code class="count">
            {name}={Number(value.toPrecision(4))}
          </code>
        ))}
      </p>
      {seen.times.length > 0 && <Steps run={run} />}
      <Groups run={run} />
      <Checkpoints run={run} />
      <details>
        <summary>All that is said of it</summary>
        <pre class="message">{run.text}</pre>
      </details>
    </section>
  );
}

export function Training({ id }: { id: string | undefined }): JSX.Element {
  const { value, error } = useAsked<Run[]>(async () => (await json("/api/v0/training")).runs, 1000, []);
  const chosen = value?.find((run) => run.run_id === id) ?? value?.[0];
  return (
    <>
      <h1>Training</h1>
      <Problem text={error} />
      {value && chosen && <One run={chosen} key={chosen.run_id} />}
      {value && (
        <Table
          label="Runs"
          empty="No training run was started in this cluster."
          rows={value}
          columns={[
            { title: "State", of: (run) => <State of={(run.is_left ? "left" : run.seen.state).toUpperCase()} /> },
            { title: "Run", of: (run) => <a href={`#/training/${encodeURIComponent(run.run_id)}`}>{run.name}</a> },
            { title: "Began", of: (run) => moment(1000 * run.seen.started_at) },
            { title: "Workers", of: (run) => run.seen.workers },
            { title: "Reports", of: (run) => run.seen.reports },
          ]}
        />
      )}
    </>
  );
}
