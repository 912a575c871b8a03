// The cluster on one screen: how much of it is used, what runs, what waits and why, what has failed.
import type { JSX } from "preact";
import type { JobDetails, WaitingDemand } from "./answers";
import { AGE_MS, json, useAsked } from "./api";
import { Heat, isMany } from "./heat";
import { Lanes, useCalls } from "./lanes";
import { useMachines } from "./machines";
import { Card, Cut, Figures, Problem, State, Table, count, resourceName } from "./show";

const EVERY_MS = 1000;
const STREAM_MS = 60_000;
// Rows of what waits and what has failed: more would push the rest off the screen.
const SHOWN = 4;
const LANES = 12;

async function cluster() {
  const [status, jobs, actors] = await Promise.all([
    json("/api/cluster_status"),
    json("/api/jobs/"),
    json("/api/v0/actors/summarize"),
  ]);
  return {
    report: status.data.clusterStatus.loadMetricsReport,
    jobs,
    actors: states(actors.data.result.result.node_id_to_summary.cluster.summary),
  };
}

/** Asked for several times a second while calls run, and nothing else with it. */
async function calls() {
  const [tasks, errors] = await Promise.all([
    json("/api/v0/tasks/summarize", { age: AGE_MS }),
    json("/api/v0/tasks/errors", { age: AGE_MS }),
  ]);
  return {
    tasks: states(tasks.data.result.result.node_id_to_summary.cluster.summary),
    errors: errors.groups,
  };
}

async function libraries() {
  const [training, tuning, datasets, serving] = await Promise.all([
    json("/api/v0/training"),
    json("/api/v0/tuning"),
    json("/api/v0/datasets"),
    json("/api/v0/serving"),
  ]);
  return {
    training: training.runs,
    tuning: tuning.runs,
    datasets: datasets.runs,
    serving: serving.runs,
  };
}

/** How many rows of all groups are in which state. */
function states(summary: Record<string, { state_counts: Record<string, number> }>): Map<string, number> {
  const sums = new Map<string, number>();
  for (const group of Object.values(summary)) {
    for (const [state, many] of Object.entries(group.state_counts)) sums.set(state, (sums.get(state) ?? 0) + many);
  }
  return sums;
}

function pending(states: Map<string, number>): number {
  return [...states].reduce((sum, [state, many]) => sum + (/^PENDING|UNREADY/.test(state) ? many : 0), 0);
}

/** What waits for the same for the same reason, as bundles of a placement group do, is one row; the most first. */
function together(demand: WaitingDemand[]): { count: number; resources: string; why: string }[] {
  const rows = new Map<string, { count: number; resources: string; why: string }>();
  for (const one of demand) {
    const resources = Object.entries(one.resources).map(([name, value]) => `${value} ${name}`).join(", ") || "nothing";
    const key = `${resources}\n${one.why}`;
    const known = rows.get(key);
    if (known) known.count += one.count;
    else rows.set(key, { count: one.count, resources, why: one.why });
  }
  return [...rows.values()].sort((a, b) => b.count - a.count);
}

/** What the libraries run now: a line each. */
function Libraries({ of }: { of: Awaited<ReturnType<typeof libraries>> }): JSX.Element | null {
  const goesOn = (run: { is_over: boolean; is_left: boolean }) => !run.is_over && !run.is_left;
  const lines: [string, string, string, JSX.Element | string][] = [
    ...of.training.filter(goesOn).map((run) => [`#/training/${encodeURIComponent(run.run_id)}`, "training", run.name, `${run.seen.workers} workers, ${count(run.seen.reports)} reports`] as [string, string, string, string]),
    ...of.tuning.filter(goesOn).map((run) => [`#/tuning/${run.run_id}`, "tuning", run.name, `${run.seen.trials.length}${run.seen.total ? ` of ${run.seen.total}` : ""} trials`] as [string, string, string, string]),
    ...of.datasets.filter(goesOn).map((run) => [`#/datasets/${run.run_id}`, "dataset", run.name, `${count(run.seen.rows)} rows`] as [string, string, string, string]),
    ...of.serving.map((run) => [`#/serving/${encodeURIComponent(run.run_id)}`, "application", run.name, <State of={run.seen.state} />] as [string, string, string, JSX.Element]),
  ];
  if (lines.length === 0) return null;
  return (
    <Card title="Running in libraries">
      <Table
        label="Running in libraries"
        empty=""
        rows={lines.slice(0, 12)}
        columns={[
          { title: "Kind", of: (line) => <em>{line[1]}</em> },
          { title: "Name", of: (line) => <a href={line[0]}>{line[2]}</a> },
          { title: "Progress", of: (line) => line[3] },
        ]}
      />
      {lines.length > 12 && <p class="dim">and {lines.length - 12} more</p>}
    </Card>
  );
}

export function Overview(): JSX.Element {
  const around = useAsked(cluster, EVERY_MS, [], ["actors", "jobs", "nodes"]);
  const told = useAsked(calls, EVERY_MS, [], ["tasks"]);
  const runs = useAsked(libraries, EVERY_MS, [], ["training", "tuning", "datasets", "serving", "jobs"]);
  const machines = useMachines();
  const known = useCalls(STREAM_MS);
  const error = around.error ?? told.error;
  if (!around.value || !told.value || !machines.value) {
    return (
      <>
        <h1>Overview</h1>
        <Problem text={error ?? machines.error} />
      </>
    );
  }
  const { report, jobs, actors } = around.value;
  const { tasks, errors } = told.value;
  const alive = machines.value.filter((node) => node.raylet.state === "ALIVE").length;
  const gone = machines.value.length - alive;
  const failed = jobs.filter((job) => job.status === "FAILED").slice(-2).reverse();
  const running = jobs.filter((job) => job.status === "RUNNING").length;
  const { usage, resourceDemand: demand } = report;
  const of = (all: Map<string, number>, state: string) => all.get(state) ?? 0;
  return (
    <>
      <h1>Overview</h1>
      <Problem text={error ?? runs.error} />
      <Figures
        of={[
          ["Nodes", <>{count(alive)} <small><State of="ALIVE" />{gone > 0 && `, ${count(gone)} dead`}</small></>, undefined, "nodes"],
          ["Jobs running", count(running), running ? "runs" : undefined, "jobs"],
          ["Tasks running", count(of(tasks, "RUNNING")), of(tasks, "RUNNING") ? "runs" : undefined, "tasks?state=RUNNING"],
          ["Tasks waiting", count(pending(tasks)), pending(tasks) ? "other" : undefined, "tasks?state=WAITING"],
          ["Tasks finished", count(of(tasks, "FINISHED")), undefined, "tasks?state=FINISHED"],
          ["Tasks failed", count(of(tasks, "FAILED")), of(tasks, "FAILED") ? "bad" : undefined, "tasks?state=FAILED"],
          ["Actors alive", <>{count(of(actors, "ALIVE"))} <small>{pending(actors) > 0 && `${count(pending(actors))} pending`}</small></>, undefined, "actors?state=ALIVE"],
        ]}
      />
      <div class="grid two">
        <Card title="Tasks in the last minute" more={<a href="#/timeline">Timeline</a>}>
          <Problem text={known.error} />
          <Lanes label="Tasks in the last minute" known={known} widthMs={STREAM_MS} lanesMax={isMany(machines.value) ? 2 * LANES : LANES} />
        </Card>
        <div>
          <Card title="Resources">
            <dl class="resources">
              {Object.entries(usage).map(([name, [used, all]]) => (
                <>
                  <dt>{resourceName(name)}</dt>
                  <dd>
                    <i>
                      <b style={{ width: `${all ? Math.min(100, (100 * used) / all) : 0}%` }} />
                    </i>
                    <span>{usedText(name, used, all)}</span>
                  </dd>
                </>
              ))}
            </dl>
          </Card>
          <Card title="Nodes" more={<a href="#/nodes">All {count(machines.value.length)}</a>}>
            <Heat machines={machines.value} />
          </Card>
        </div>
      </div>
      <div class="grid half">
        <Card title="Waiting for resources">
          <Cut rows={together(demand)} most={SHOWN}>
            {(rows) => (
              <Table
                label="Waiting for resources"
                empty="Nothing is waiting for resources."
                rows={rows}
                columns={[
                  { title: "Count", of: (row) => count(row.count), number: true },
                  { title: "Resources", of: (row) => row.resources },
                  { title: "Reason", of: (row) => <span class="lines" title={row.why}>{row.why}</span> },
                ]}
              />
            )}
          </Cut>
        </Card>
        <Card title="Failures" more={<a href="#/errors">All errors</a>}>
          {errors.length === 0 && failed.length === 0 && <p class="empty">No job or task has failed.</p>}
          {failed.length > 0 && (
            <Table
              label="Failed jobs"
              empty=""
              rows={failed}
              columns={[
                { title: "Job", of: (job) => <a class="name" href={`#/jobs/${encodeURIComponent(idOf(job))}`}>{idOf(job)}</a> },
                { title: "Reason", of: (job) => <span class="lines" title={job.message ?? ""}>{lastOf(job.message)}</span> },
              ]}
            />
          )}
          {errors.length > 0 && (
            <Table
              label="Failed tasks"
              empty=""
              rows={errors.slice(0, SHOWN)}
              columns={[
                { title: "Count", of: (row) => count(row.count), number: true },
                { title: "Function", of: (row) => <a class="name" href={`#/tasks/${row.task_id}`}>{row.function}</a> },
                { title: "Error", of: (row) => <span class="lines" title={row.message}>{row.message || row.error_type}</span> },
              ]}
            />
          )}
        </Card>
      </div>
      {runs.value && <Libraries of={runs.value} />}
    </>
  );
}

function usedText(name: string, used: number, all: number): string {
  const part = all ? Math.round((100 * used) / all) : 0;
  const short = (value: number) => (/memory/.test(name) ? (value / 2 ** 30).toFixed(1) : String(Math.round(value * 100) / 100));
  return `${short(used)} / ${short(all)}${/memory/.test(name) ? " GiB" : ""}, ${part} %`;
}

/** What a job is called: a submission's name, or a driver's number. */
export function idOf(job: JobDetails): string {
  return job.submission_id ?? job.job_id ?? "";
}

/** The reason is at the end: before it stand the first lines of a log. */
export function lastOf(message: string | null): string {
  const lines = (message ?? "").trim().split("\n");
  return lines.length > 3 ? `… ${lines.slice(-2).join(" ")}` : lines.join(" ");
}

