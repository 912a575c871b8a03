// Nodes: all of them, and one.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { isPast, useAsked } from "./api";
import { Heat } from "./heat";
import { ActorList, TaskList, WorkerList } from "./lists";
import { hostOf, useMachines, useOf } from "./machines";
import type { Curves, Machine } from "./answers";
import { MachinePast, Spark, ofMachines } from "./metrics";
import { Card, Crumbs, Cut, Facts, Id, Problem, State, Table, Use, bytes, count, resourceName } from "./show";

/** Nodes in a list, and the past of their machines beside them. */
const SHOWN = 100;
const [HOUR_S, POINTS, EVERY_MS] = [3600, 60, 10_000];

function use(machine: Machine, name: string): JSX.Element | null {
  const found = useOf(machine, name);
  return found && <Use name={name} {...found} />;
}

function Devices({ of }: { of: Machine }): JSX.Element {
  return (
    <>
      {of.gpus.map((gpu) => (
        <div>
          {gpu.index} {gpu.name} {gpu.utilizationGpu ?? "?"} % {bytes(gpu.memoryUsed * 2 ** 20)} / {bytes(gpu.memoryTotal * 2 ** 20)}
        </div>
      ))}
    </>
  );
}

function lastOf(values: (number | null)[] | undefined): number | null {
  return values?.reduceRight<number | null>((found, value) => found ?? value, null) ?? null;
}

interface Hardware {
  title: string;
  names: string[];
  most: (curves: Curves) => number;
  text: (value: number) => string;
}

const largest = (names: string[]) => (curves: Curves) => Math.max(1, ...curves.at.map((_, at) => names.reduce((all, name) => all + (curves.series[name]?.[at] ?? 0), 0)));
const traffic = (title: string, names: string[]): Hardware => ({ title, names, most: largest(names), text: (value) => `${bytes(value)}/s` });
const CPUS: Hardware = { title: "CPUs", names: ["cpu_percent"], most: () => 100, text: (value) => `${Math.round(value)} %` };
const MEMORY: Hardware = { title: "memory", names: ["memory_used"], most: (curves) => lastOf(curves.series.memory) ?? 1, text: bytes };
const DISKS = traffic("disks", ["disk_read_per_s", "disk_written_per_s"]);
const NETWORK = traffic("network", ["received_per_s", "sent_per_s"]);

/** How busy a part of the machine is: now, and in the last hour. */
function Busy({ of, row, curves, called }: { of: Hardware; row: Machine; curves: Curves | undefined; called: string }): JSX.Element | null {
  if (!curves) return null;
  const sum = curves.at.map((_, at) => {
    const parts = of.names.map((name) => curves.series[name]?.[at] ?? null);
    return parts.includes(null) ? null : parts.reduce<number>((all, one) => all + (one ?? 0), 0);
  });
  const last = lastOf(sum);
  return last === null ? null : (
    <div>
      <Spark values={sum} most={of.most(curves)} label={`Machine's ${of.title} of ${hostOf(row)} in the last hour`}>
        {`${of.text(last)} ${called}`}
      </Spark>
    </div>
  );
}

export function Nodes(): JSX.Element {
  const { value, error } = useMachines();
  const [wanted, setWanted] = useState("");
  const text = wanted.toLowerCase();
  const found: Machine[] = (value ?? []).filter((node) => [hostOf(node), node.ip, node.raylet.nodeId, node.raylet.state].some((one) => one.toLowerCase().includes(text)));
  const ids = found.slice(0, SHOWN).map((node) => node.raylet.nodeId);
  const past = (row: Machine) => pasts.value?.[row.raylet.nodeId];
  const pasts = useAsked<Record<string, Curves>>(async () => (ids.length ? ofMachines(ids, HOUR_S, POINTS) : {}), EVERY_MS, [ids.join()]);
  return (
    <>
      <h1>Nodes</h1>
      <Problem text={error} />
      {value && value.length > 1 && (
        <Card title="Utilization">
          <Heat machines={value} />
        </Card>
      )}
      {value && value.length > 1 && (
        <form class="filters" onSubmit={(event) => event.preventDefault()}>
          <label>
            Search <input value={wanted} onInput={(event) => setWanted(event.currentTarget.value.trim())} placeholder="name, address, state or id" />
          </label>
          <span class="dim" role="status">
            {count(found.length)} of {count(value.length)}
          </span>
        </form>
      )}
      {value && (
        <Cut rows={found} most={SHOWN}>
          {(shown) => (
            <Table
              label="Nodes"
              empty="No node matches the search."
              rows={shown}
              columns={[
                { title: "Node", of: (row) => <><a class="host" title={hostOf(row)} href={`#/nodes/${row.raylet.nodeId}`}>{hostOf(row)}</a> {row.raylet.isHeadNode && <em>head</em>}<div class="dim">{row.ip}</div></> },
                { title: "State", of: (row) => <><State of={row.raylet.state} />{row.raylet.stateMessage && <span class="lines" title={row.raylet.stateMessage}>{row.raylet.stateMessage}</span>}</> },
                { title: "CPUs", of: (row) => <>{use(row, "CPU")}<Busy of={CPUS} row={row} curves={past(row)} called="busy" /></> },
                ...(shown.some((row) => row.gpus.length > 0 || useOf(row, "GPU")) ? [{ title: "GPUs", of: (row: Machine) => <>{use(row, "GPU")}<Devices of={row} /></> }] : []),
                { title: "Memory", of: (row) => <>{use(row, "memory")}<Busy of={MEMORY} row={row} curves={past(row)} called="in use" /></> },
                { title: "Object store", of: (row) => use(row, "object_store_memory") },
                { title: "Disk and network", of: (row) => <><Busy of={DISKS} row={row} curves={past(row)} called="disk" /><Busy of={NETWORK} row={row} curves={past(row)} called="network" /></> },
                { title: "Workers", of: (row) => row.workers, number: true },
                { title: "Id", of: (row) => <Id of={row.raylet.nodeId} to="nodes" /> },
              ]}
            />
          )}
        </Cut>
      )}
    </>
  );
}

export function Node({ id }: { id: string }): JSX.Element {
  const { value, error } = useMachines();
  if (!value) {
    return (
      <>
        <h1>Loading…</h1>
        <Problem text={error} />
      </>
    );
  }
  const node = value.find((one) => one.raylet.nodeId === id);
  if (!node) {
    return (
      <>
        <Crumbs part="nodes" title="Nodes" />
        <h1>Not found</h1>
        <Problem text={`There is no node ${id}.`} />
      </>
    );
  }
  const { raylet } = node;
  const resources = Object.keys(raylet.resourcesTotal).filter((name) => !name.startsWith("node:"));
  const fixed = [{ column: "node_id", predicate: "=" as const, value: id }];
  const labels = Object.entries(raylet.labels).filter(([name]) => name !== "ray.io/node-id");
  return (
    <>
      <Crumbs part="nodes" title="Nodes" />
      <h1>
        {hostOf(node)} <State of={raylet.state} />
      </h1>
      <Problem text={error ?? raylet.stateMessage} />
      <div class="grid half">
        <Card title="About" more={isPast() ? undefined : <a href={`#/logs/${id}`}>Logs</a>}>
          <Facts
            of={[
              ["Id", <Id of={id} whole />],
              ["Host", node.hostname],
              ["Address", `${node.ip}:${raylet.nodeManagerPort}`],
              ["Daemon", `process ${raylet.pid}`],
              ["Role", raylet.isHeadNode ? "head" : "worker"],
              ["Workers", node.workers],
              ["Labels", labels.length > 0 && labels.map(([name, value]) => <div><code>{name}={value}</code></div>)],
            ]}
          />
        </Card>
        <Card title="Resources">
          <Facts of={resources.map((name) => [resourceName(name), use(node, name)])} />
          <Devices of={node} />
        </Card>
      </div>
      <h2>Machine</h2>
      <MachinePast id={id} />
      <h2>Workers</h2>
      <WorkerList fixed={fixed} limit={20} />
      <h2>Actors</h2>
      <ActorList fixed={fixed} limit={20} />
      <h2>Tasks</h2>
      <TaskList fixed={fixed} limit={20} />
    </>
  );
}
