// The nodes of the cluster, asked for once for the whole page: everything names machines by them.
import { createContext } from "preact";
import type { JSX } from "preact";
import { useContext } from "preact/hooks";
import type { Machine } from "./answers";
import { json, useAsked } from "./api";
import type { Asked } from "./api";

export const Machines = createContext<Asked<Machine[]>>({});

// Ten thousand nodes are some megabytes: they are asked for less often.
const EVERY_MS = 1000;
let everyMs = EVERY_MS;

export function useMachinesAsked(): Asked<Machine[]> {
  return useAsked<Machine[]>(
    async () => {
      const found = (await json("/nodes", { view: "summary" })).data.summary;
      everyMs = EVERY_MS + 2 * found.length;
      return found;
    },
    () => everyMs,
    [],
    ["nodes"],
  );
}

export function useMachines(): Asked<Machine[]> {
  return useContext(Machines);
}

/** What people call it: its name, or where it has none its host's. */
export function hostOf(machine: Machine): string {
  return machine.name && machine.name !== machine.ip ? machine.name : machine.hostname || machine.ip;
}

export function useNameOf(): (id: string | null | undefined) => string {
  const { value } = useMachines();
  return (id) => {
    const found = value?.find((machine) => machine.raylet.nodeId === id);
    return found ? hostOf(found) : (id ?? "").slice(0, 10);
  };
}

/** A node by its host's name, or by that which it had when it was known; it leads to its page. */
export function Host({ of, named }: { of: string | null | undefined; named?: string }): JSX.Element | null {
  const { value } = useMachines();
  if (!of) return named ? <>{named}</> : null;
  const found = value?.find((machine) => machine.raylet.nodeId === of);
  return (
    <a href={`#/nodes/${of}`} title={of}>
      {found ? hostOf(found) : named || of.slice(0, 10)}
    </a>
  );
}

/** How much of a resource is used, and of how much; null where a node has none. */
export function useOf(machine: Machine, name: string): { used: number; all: number } | null {
  const { resourcesTotal, resourcesAvailable, objectStoreUsedMemory } = machine.raylet;
  const all = resourcesTotal[name] ?? 0;
  if (!all) return null;
  return { used: name === "object_store_memory" ? objectStoreUsedMemory : all - (resourcesAvailable[name] ?? 0), all };
}
