// Two training runs over each other: what they took, their metrics, and the steps of their ranks.
import type { JSX } from "preact";
import { Metrics } from "./curves";
import { drawn, seconds, stateOf, tookOf } from "./run";
import type { TrainingRun as Run } from "./answers";
import { Card, Table, moment } from "./show";
import { Steps, milliseconds, total } from "./steps";

const RANKS_MAX = 16;

interface Fact {
  title: string;
  texts: string[];
  ratio: string;
}

function mean(values: number[]): number | null {
  return values.length > 0 ? values.reduce((a, b) => a + b, 0) / values.length : null;
}

/** Figures of each run, and the second as a part of the first where that says something. */
function measured(title: string, values: (number | null)[], show: (value: number) => string): Fact {
  const [first, last] = values;
  return {
    title,
    texts: values.map((value) => (value === null ? "" : show(value))),
    ratio: first && last != null ? (last / first).toFixed(2) : "",
  };
}

function facts(runs: Run[]): Fact[] {
  const said = (title: string, of: (run: Run) => string | number): Fact => ({ title, texts: runs.map((run) => String(of(run))), ratio: "" });
  const meanOf = (run: Run, of: (spent: number[]) => number) => mean(run.seen.times.map((times) => of(times.spent)));
  const phases = runs[0]!.seen.phases;
  const waiting = phases.indexOf("communication");
  const own = (run: Run) => run.seen.times.map((times) => total(times) - times.spent[waiting]!);
  const slowest = (run: Run) => (run.seen.times.length > 0 ? Math.max(...own(run)) : null);
  return [
    said("started", (run) => moment(1000 * run.seen.started_at)),
    said("state", stateOf),
    measured("duration", runs.map(tookOf), seconds),
    said("workers", (run) => run.seen.workers),
    said("reports", (run) => run.seen.reports),
    measured("reports/s", runs.map((run) => run.seen.reports_per_s), (value) => String(Number(value.toPrecision(4)))),
    said("failures", (run) => run.seen.failures),
    said("checkpoints", (run) => run.seen.checkpoint_count),
    measured("checkpoint upload", runs.map((run) => run.seen.in_flight_mean_s), seconds),
    measured("step", runs.map((run) => mean(run.seen.times.map(total))), milliseconds),
    measured("slowest rank without waiting", runs.map(slowest), milliseconds),
    ...phases.map((name, phase) => measured(`step: ${name}`, runs.map((run) => meanOf(run, (spent) => spent[phase]!)), milliseconds)),
  ].filter(({ texts }) => texts.some(Boolean));
}

/** Names that tell the runs apart, also where both have the same. */
function told(runs: Run[]): string[] {
  const names = runs.map((run) => run.name);
  return new Set(names).size === names.length ? names : names.map((name, at) => `${name} (${at + 1})`);
}

/** The earlier run first. */
export function Compared({ runs: given }: { runs: [Run, Run] }): JSX.Element {
  const runs = [...given].sort((a, b) => a.seen.started_at - b.seen.started_at);
  const names = told(runs);
  const ranks = [...new Set(runs.flatMap((run) => run.seen.times.map(({ rank }) => rank)))].sort((a, b) => a - b);
  const lanes = ranks.slice(0, RANKS_MAX).flatMap((rank) =>
    runs.flatMap((run, at) => run.seen.times.filter((times) => times.rank === rank).map((times) => ({ name: `rank ${rank}, ${at + 1}`, times }))),
  );
  return (
    <section>
      <h2>{names.join(" and ")}</h2>
      <Metrics runs={runs.map((run, at) => ({ ...drawn(run), name: names[at]! }))} />
      <Card title="Figures">
        <Table
          label="Comparison"
          empty=""
          rows={facts(runs)}
          columns={[
            { title: "Figure", of: (fact) => fact.title },
            ...names.map((name, at) => ({ title: `${at + 1}: ${name}`, of: (fact: Fact) => fact.texts[at], number: true })),
            { title: "Ratio, second / first", of: (fact) => fact.ratio, number: true },
          ]}
        />
      </Card>
      {lanes.length > 0 && <Steps phases={runs[0]!.seen.phases} lanes={lanes} />}
    </section>
  );
}
