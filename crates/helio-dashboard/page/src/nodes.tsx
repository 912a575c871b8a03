import type { JSX } from "preact";
import { json, useAsked } from "./api";
import { Id, Problem, State, Table, Use, bytes } from "./show";

export function Nodes(): JSX.Element {
  const { value, error } = useAsked(async () => (await json("/nodes?view=summary")).data.summary as any[], 1000, []);
  const use = (node: any, name: string) => {
    const all = node.raylet.resourcesTotal[name] ?? 0;
    if (!all) return null;
    const used = name === "object_store_memory" ? node.raylet.objectStoreUsedMemory : all - (node.raylet.resourcesAvailable[name] ?? 0);
    return <Use name={name} used={used} all={all} />;
  };
  return (
    <>
      <h1>Nodes</h1>
      <Problem text={error} />
      {value && (
        <Table
          label="Nodes"
          empty="There are no nodes."
          rows={value}
          columns={[
            { title: "Node", of: (node) => <>{node.name || node.ip} {node.raylet.isHeadNode && <em>head</em>}</> },
            { title: "State", of: (node) => <><State of={node.raylet.state} /> {node.raylet.stateMessage}</> },
            { title: "Id", of: (node) => <Id of={node.raylet.nodeId} /> },
            { title: "CPUs", of: (node) => use(node, "CPU") },
            { title: "GPUs", of: (node) => use(node, "GPU") },
            { title: "Memory", of: (node) => use(node, "memory") },
            { title: "Object store", of: (node) => use(node, "object_store_memory") },
            {
              title: "Devices",
              of: (node) => node.gpus.map((gpu: any) => (
                <div>{gpu.index} {gpu.name} {gpu.utilizationGpu ?? "?"} % {bytes(gpu.memoryUsed * 2 ** 20)} / {bytes(gpu.memoryTotal * 2 ** 20)}</div>
              )),
            },
            { title: "Workers", of: (node) => node.workers },
            { title: "", of: (node) => <a href={`#/logs/${node.raylet.nodeId}`}>logs</a> },
          ]}
        />
      )}
    </>
  );
}
