// What the cluster and its machines used, with the past that the head keeps: of the cluster a day by seconds and a week by
// minutes, of each machine two hours by ten seconds and a week by five minutes.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Curves } from "./answers";
import { json, now, useAsked } from "./api";
import { Chart } from "./chart";
import { Card, Problem, duration } from "./show";

type Points = (number | null)[];

const SPANS: [string, number][] = [
  ["last 10 minutes", 600],
  ["last hour", 3600],
  ["last day", 86_400],
  ["last week", 604_800],
];
const POINTS = 400;

/** Curves of one chart: what it shows, the columns and their names, and by how much values are divided. */
interface Shown {
  title: string;
  of: [column: string, label: string][];
  by?: number;
  isCount?: boolean;
}

const CLUSTER: Shown[] = [
  { title: "CPUs", of: [["cpus_used", "in use"], ["cpus", "total"]] },
  { title: "Workers and waiting requests", of: [["workers", "workers"], ["waiting_requests", "waiting requests"]], isCount: true },
  { title: "Object store, GiB", of: [["object_store_used", "used"], ["object_store", "total"]], by: 2 ** 30 },
  { title: "GPUs", of: [["gpus_used", "in use"], ["gpus", "total"]] },
  { title: "GPUs, %", of: [["gpu_percent", "busy, average"]] },
  { title: "Memory of GPUs, GiB", of: [["gpu_memory_used", "used"], ["gpu_memory", "total"]], by: 2 ** 30 },
  { title: "Nodes", of: [["nodes", "nodes"]], isCount: true },
];

const MACHINE: Shown[] = [
  { title: "CPUs of the machine, %", of: [["machine_cpu_percent", "busy"]] },
  { title: "Memory of the machine, GiB", of: [["machine_memory_used", "used"], ["machine_memory", "total"]], by: 2 ** 30 },
  { title: "Disks of the machine, MB/s", of: [["machine_disk_read_per_s", "read"], ["machine_disk_written_per_s", "written"]], by: 1e6 },
  { title: "Network of the machine, MB/s", of: [["machine_received_per_s", "received"], ["machine_sent_per_s", "sent"]], by: 1e6 },
];

function Charts({ of, curves }: { of: Shown[]; curves: Curves }): JSX.Element {
  const isKnown = ({ of }: Shown) => of.some(([column]) => curves.series[column]?.some((value) => value !== null && value > 0));
  return (
    <div class="grid half">
      {of.filter(isKnown).map(({ title, of, by = 1, isCount }) => (
        <Card title={title} key={title}>
          <Chart
            label={title}
            times={curves.at}
            isCount={isCount}
            series={of.map(([column, label]) => ({ label, values: (curves.series[column] ?? []).map((value) => (value === null ? null : value / by)) }))}
          />
        </Card>
      ))}
    </div>
  );
}

const OF_NODE: Shown[] = [
  { title: "CPUs of the machine, %", of: [["cpu_percent", "busy"]] },
  { title: "Memory of the machine, GiB", of: [["memory_used", "used"], ["memory", "total"]], by: 2 ** 30 },
  { title: "Disks of the machine, MB/s", of: [["disk_read_per_s", "read"], ["disk_written_per_s", "written"]], by: 1e6 },
  { title: "Network of the machine, MB/s", of: [["received_per_s", "received"], ["sent_per_s", "sent"]], by: 1e6 },
  { title: "GPUs, %", of: [["gpu_percent", "busy, average"]] },
  { title: "Memory of GPUs, GiB", of: [["gpu_memory_used", "used"], ["gpu_memory", "total"]], by: 2 ** 30 },
  { title: "CPUs in use by tasks and actors", of: [["cpus_used", "in use"]] },
  { title: "Object store, GiB", of: [["object_store_used", "used"]], by: 2 ** 30 },
];

/** The curves of machines, by their ids; of one of which nothing is known yet there are none. */
export async function ofMachines(ids: string[], seconds: number, points: number): Promise<Record<string, Curves>> {
  const to = Math.floor(now() / 1000);
  return (await json("/api/v0/metrics/machines", { node_id: ids.join(), from: to - seconds, to, points })).machines;
}

async function ofCluster(seconds: number): Promise<Curves> {
  const to = Math.floor(now() / 1000);
  return json("/api/v0/metrics/past", { from: to - seconds, to, points: POINTS });
}

async function ofMachine(id: string, seconds: number): Promise<Curves> {
  return (await ofMachines([id], seconds, POINTS))[id] ?? { every_s: 1, at: [], series: {} };
}

/** The charts of a span of time that can be chosen. */
function Past({ of, ask, everyMs, from }: { of: Shown[]; ask: (seconds: number) => Promise<Curves>; everyMs: number; from: string }): JSX.Element {
  const [span, setSpan] = useState(SPANS[0]![1]);
  // A point more is seen, and no more often.
  const { value, error } = useAsked<Curves>(() => ask(span), Math.max(everyMs, (1000 * span) / POINTS), [span, from]);
  return (
    <>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Range{" "}
          <select value={String(span)} onChange={(event) => setSpan(Number(event.currentTarget.value))}>
            {SPANS.map(([name, seconds]) => (
              <option value={String(seconds)}>{name}</option>
            ))}
          </select>
        </label>
        {value && value.every_s > 1 && <span class="dim">averages over {value.every_s < 60 ? `${value.every_s} s` : duration(1000 * value.every_s)}</span>}
      </form>
      <Problem text={error} />
      {value && value.at.length === 0 && <p class="empty">No measurements in this range.</p>}
      {value && value.at.length > 0 && <Charts of={of} curves={value} />}
    </>
  );
}

/** What the machine of a node used. */
export function MachinePast({ id }: { id: string }): JSX.Element {
  return <Past of={OF_NODE} ask={(seconds) => ofMachine(id, seconds)} everyMs={10_000} from={id} />;
}

export function Metrics(): JSX.Element {
  return (
    <>
      <h1>Metrics</h1>
      <Past of={[...CLUSTER, ...MACHINE]} ask={ofCluster} everyMs={1000} from="" />
    </>
  );
}

const LINE = { width: 56, height: 18 };

/** A figure and its last hour, as a line without axes. */
export function Spark({ values, most, label, children }: { values: Points; most: number; label: string; children: JSX.Element | string }): JSX.Element {
  const x = (at: number) => (at / Math.max(1, values.length - 1)) * LINE.width;
  const y = (value: number) => LINE.height - 1 - Math.min(1, value / (most || 1)) * (LINE.height - 2);
  let path = "";
  let isDown = false;
  values.forEach((value, at) => {
    if (value !== null) path += `${isDown ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    isDown = value !== null;
  });
  return (
    <span class="spark">
      <svg viewBox={`0 0 ${LINE.width} ${LINE.height}`} width={LINE.width} height={LINE.height} role="img" aria-label={label}>
        <path d={path} />
      </svg>
      {children}
    </span>
  );
}
