// Nodes: all of them, and one.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Chart } from "./chart";
import { Heat } from "./heat";
import { ActorList, TaskList, WorkerList } from "./lists";
import { hostOf, useMachines, useOf } from "./machines";
import type { Machine } from "./machines";
import { MachinePast } from "./metrics";
import { Card, Crumbs, Cut, Facts, Id, Problem, State, Table, Use, bytes } from "./show";

const POINTS_MAX = 600;

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

export function Nodes(): JSX.Element {
  const { value, error } = useMachines();
  const [wanted, setWanted] = useState("");
  const text = wanted.toLowerCase();
  const found = (value ?? []).filter((node) => [hostOf(node), node.ip, node.raylet.nodeId, node.raylet.state].some((one) => one.toLowerCase().includes(text)));
  return (
    <>
      <h1>Nodes</h1>
      <Problem text={error} />
      {value && value.length > 1 && (
        <Card title="Use">
          <Heat machines={value} />
        </Card>
      )}
      {value && value.length > 1 && (
        <form class="filters" onSubmit={(event) => event.preventDefault()}>
          <label>
            Name, address, state or id <input value={wanted} onInput={(event) => setWanted(event.currentTarget.value.trim())} placeholder="any" />
          </label>
          <span class="dim" role="status">
            {found.length} of {value.length}
          </span>
        </form>
      )}
      {value && (
        <Cut rows={found} most={100}>
          {(shown) => (
            <Table
              label="Nodes"
              empty="There is no such node."
              rows={shown}
              columns={[
                { title: "Node", of: (row) => <><a href={`#/nodes/${row.raylet.nodeId}`}>{hostOf(row)}</a> {row.raylet.isHeadNode && <em>head</em>}</> },
                { title: "State", of: (row) => <><State of={row.raylet.state} /> {row.raylet.stateMessage}</> },
                { title: "CPUs", of: (row) => use(row, "CPU") },
                { title: "GPUs", of: (row) => use(row, "GPU") },
                { title: "Memory", of: (row) => use(row, "memory") },
                { title: "Object store", of: (row) => use(row, "object_store_memory") },
                { title: "Devices", of: (row) => <Devices of={row} /> },
                { title: "Workers", of: (row) => row.workers, number: true },
                { title: "Address", of: (row) => row.ip },
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
  const past = useRef<{ times: number[]; cpus: number[]; workers: number[] }>({ times: [], cpus: [], workers: [] });
  if (!value) {
    return (
      <>
        <h1>One moment</h1>
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
  const { times, cpus, workers } = past.current;
  const now = Date.now() / 1000;
  if (now - (times[times.length - 1] ?? 0) > 0.9) {
    times.push(now);
    cpus.push(useOf(node, "CPU")?.used ?? 0);
    workers.push(node.workers);
    for (const points of [times, cpus, workers]) if (points.length > POINTS_MAX) points.shift();
  }
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
        <Card title="About" more={<a href={`#/logs/${id}`}>logs</a>}>
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
          <Facts of={resources.map((name) => [name.replaceAll("_", " "), use(node, name)])} />
          <Devices of={node} />
        </Card>
      </div>
      <Card title="Since this page was opened">
        <Chart
          label="CPUs in use and workers"
          times={times}
          series={[
            { label: "CPUs in use", values: cpus },
            { label: "workers", values: workers },
          ]}
        />
      </Card>
      {raylet.isHeadNode && (
        <>
          <h2>The machine</h2>
          <MachinePast />
        </>
      )}
      <h2>Workers</h2>
      <WorkerList fixed={fixed} limit={20} />
      <h2>Actors</h2>
      <ActorList fixed={fixed} limit={20} />
      <h2>Tasks</h2>
      <TaskList fixed={fixed} limit={20} />
    </>
  );
}
