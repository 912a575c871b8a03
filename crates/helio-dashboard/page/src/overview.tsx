import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { json, useAsked } from "./api";
import { Chart } from "./chart";
import { Card, Problem, State, Table, Use } from "./show";

const EVERY_MS = 1000;
// Ten minutes at one point a second.
const POINTS_MAX = 600;

interface Seen {
  times: number[];
  cpus: number[];
  running: number[];
}

async function everything() {
  const [nodes, status, jobs, tasks, actors] = await Promise.all([
    json("/nodes?view=summary"),
    json("/api/cluster_status"),
    json("/api/jobs/"),
    json("/api/v0/tasks/summarize"),
    json("/api/v0/actors/summarize"),
  ]);
  return {
    nodes: nodes.data.summary as any[],
    report: status.data.clusterStatus.loadMetricsReport,
    jobs: jobs as any[],
    tasks: tasks.data.result.result.node_id_to_summary.cluster,
    actors: actors.data.result.result.node_id_to_summary.cluster,
  };
}

/** How many rows of all groups are in which state. */
function states(summary: Record<string, { state_counts: Record<string, number> }>): [string, number][] {
  const sums = new Map<string, number>();
  for (const group of Object.values(summary)) {
    for (const [state, count] of Object.entries(group.state_counts)) sums.set(state, (sums.get(state) ?? 0) + count);
  }
  return [...sums].sort();
}

function Counts({ of, what }: { of: [string, number][]; what: string }): JSX.Element {
  if (of.length === 0) return <p class="empty">No {what} yet.</p>;
  return (
    <dl class="counts">
      {of.map(([state, count]) => (
        <div>
          <dt>
            <State of={state} />
          </dt>
          <dd>{count}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Overview(): JSX.Element {
  const seen = useRef<Seen>({ times: [], cpus: [], running: [] });
  const { value, error } = useAsked(
    async () => {
      const all = await everything();
      const { times, cpus, running } = seen.current;
      times.push(Date.now() / 1000);
      cpus.push(all.report.usage.CPU?.[0] ?? 0);
      running.push(states(all.tasks.summary).find(([state]) => state === "RUNNING")?.[1] ?? 0);
      for (const points of [times, cpus, running]) if (points.length > POINTS_MAX) points.shift();
      return all;
    },
    EVERY_MS,
    [],
  );
  if (!value) return <Problem text={error} />;
  const alive = value.nodes.filter((node) => node.raylet.state === "ALIVE");
  const failures = value.jobs.filter((job) => job.status === "FAILED").slice(-5).reverse();
  const demand: any[] = value.report.resourceDemand;
  return (
    <>
      <Problem text={error} />
      <div class="cards">
        <Card title="Nodes">
          <p class="large">
            {alive.length} <State of="ALIVE" />
            {alive.length < value.nodes.length && <span class="dim"> of {value.nodes.length}</span>}
          </p>
          <ul class="plain">
            {value.nodes.slice(0, 8).map((node) => (
              <li>
                <State of={node.raylet.state} /> {node.name || node.ip} {node.raylet.isHeadNode && <em>head</em>}
              </li>
            ))}
          </ul>
          {value.nodes.length > 8 && <a href="#/nodes">all {value.nodes.length}</a>}
        </Card>
        <Card title="Resources">
          {Object.entries(value.report.usage as Record<string, [number, number]>).map(([name, [used, all]]) => (
            <div class="resource">
              <span>{name.replaceAll("_", " ")}</span>
              <Use name={name} used={used} all={all} />
            </div>
          ))}
        </Card>
        <Card title="Tasks">
          <Counts of={states(value.tasks.summary)} what="tasks" />
        </Card>
        <Card title="Actors">
          <Counts of={states(value.actors.summary)} what="actors" />
        </Card>
      </div>
      <Card title="Since this page was opened">
        <Chart
          label="CPUs in use and tasks that run"
          times={seen.current.times}
          series={[
            { label: "CPUs in use", values: seen.current.cpus },
            { label: "tasks that run", values: seen.current.running },
          ]}
        />
      </Card>
      <Card title="What waits, and why">
        <Table
          label="What waits"
          empty="Nothing waits for resources."
          rows={demand}
          columns={[
            { title: "How many", of: (row) => row.count },
            {
              title: "Needs",
              of: (row) =>
                Object.entries(row.resources)
                  .map(([name, value]) => `${value} ${name}`)
                  .join(", ") || "nothing",
            },
            { title: "Why", of: (row) => row.why },
          ]}
        />
      </Card>
      <Card title="Jobs that failed last">
        <Table
          label="Failed jobs"
          empty="No job has failed."
          rows={failures}
          columns={[
            { title: "Job", of: (job) => <a href={`#/jobs/${encodeURIComponent(job.submission_id)}`}>{job.submission_id}</a> },
            { title: "Command", of: (job) => <code>{job.entrypoint}</code> },
            { title: "Why", of: (job) => <span class="clip">{job.message}</span> },
          ]}
        />
      </Card>
    </>
  );
}
