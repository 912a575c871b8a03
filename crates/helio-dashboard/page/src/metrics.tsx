// What the cluster and the head's machine used, with the past that the head keeps: a day by seconds, a week by minutes.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { json, now, useAsked } from "./api";
import { Chart } from "./chart";
import { Card, Problem } from "./show";

type Points = (number | null)[];

interface Curves {
  every_s: number;
  at: number[];
  series: Record<string, Points>;
}

const SPANS: [string, number][] = [
  ["10 minutes", 600],
  ["an hour", 3600],
  ["a day", 86_400],
  ["a week", 604_800],
];
const POINTS = 400;

/** Curves of one chart: what it shows, the columns and their names, and by how much values are divided. */
interface Shown {
  title: string;
  of: [column: string, label: string][];
  by?: number;
}

const CLUSTER: Shown[] = [
  { title: "CPUs", of: [["cpus_used", "in use"], ["cpus", "all"]] },
  { title: "Workers, and requests that wait", of: [["workers", "workers"], ["waiting_requests", "waiting requests"]] },
  { title: "Object store, GiB", of: [["object_store_used", "used"], ["object_store", "all"]], by: 2 ** 30 },
  { title: "GPUs", of: [["gpus_used", "in use"], ["gpus", "all"]] },
  { title: "GPUs, %", of: [["gpu_percent", "busy, the mean"]] },
  { title: "Memory of GPUs, GiB", of: [["gpu_memory_used", "used"], ["gpu_memory", "all"]], by: 2 ** 30 },
  { title: "Nodes", of: [["nodes", "nodes"]] },
];

const MACHINE: Shown[] = [
  { title: "CPUs of the machine, %", of: [["machine_cpu_percent", "busy"]] },
  { title: "Memory of the machine, GiB", of: [["machine_memory_used", "used"], ["machine_memory", "all"]], by: 2 ** 30 },
  { title: "Disks of the machine, MB/s", of: [["machine_disk_read_per_s", "read"], ["machine_disk_written_per_s", "written"]], by: 1e6 },
  { title: "Network of the machine, MB/s", of: [["machine_received_per_s", "received"], ["machine_sent_per_s", "sent"]], by: 1e6 },
];

function Charts({ of, curves }: { of: Shown[]; curves: Curves }): JSX.Element {
  const isKnown = ({ of }: Shown) => of.some(([column]) => curves.series[column]?.some((value) => value !== null && value > 0));
  return (
    <div class="grid half">
      {of.filter(isKnown).map(({ title, of, by = 1 }) => (
        <Card title={title} key={title}>
          <Chart
            label={title}
            times={curves.at}
            series={of.map(([column, label]) => ({ label, values: (curves.series[column] ?? []).map((value) => (value === null ? null : value / by)) }))}
          />
        </Card>
      ))}
    </div>
  );
}

/** The charts of a span of time that can be chosen. */
function Past({ of }: { of: Shown[] }): JSX.Element {
  const [span, setSpan] = useState(SPANS[0]![1]);
  const { value, error } = useAsked<Curves>(
    () => {
      const to = Math.floor(now() / 1000);
      return json(`/api/v0/metrics/past?from=${to - span}&to=${to}&points=${POINTS}`);
    },
    // A point more is seen, and no more often.
    Math.max(1000, (1000 * span) / POINTS),
    [span],
  );
  return (
    <>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Seen{" "}
          <select value={String(span)} onChange={(event) => setSpan(Number(event.currentTarget.value))}>
            {SPANS.map(([name, seconds]) => (
              <option value={String(seconds)}>{name}</option>
            ))}
          </select>
        </label>
        {value && value.every_s > 1 && <span class="dim">means of {value.every_s} s</span>}
      </form>
      <Problem text={error} />
      {value && value.at.length === 0 && <p class="empty">Nothing was measured in that time.</p>}
      {value && value.at.length > 0 && <Charts of={of} curves={value} />}
    </>
  );
}

/** What the head's machine used: no other machine's past is kept. */
export function MachinePast(): JSX.Element {
  return <Past of={MACHINE} />;
}

export function Metrics(): JSX.Element {
  return (
    <>
      <h1>Metrics</h1>
      <Past of={[...CLUSTER, ...MACHINE]} />
    </>
  );
}
