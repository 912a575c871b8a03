// What drivers tell of what they run: the list of it, and the one that is opened.
import type { ComponentChildren, JSX } from "preact";
import { useAsked } from "./api";
import { Problem, Table } from "./show";
import type { Column } from "./show";

interface Props<Run> {
  title: string;
  /** Asks for all of them, and the list by whose name the head says that they have changed. */
  ask: () => Promise<Run[]>;
  list: "tuning" | "datasets" | "serving";
  /** Which one is opened; undefined: none, the list is shown. */
  id: string | undefined;
  one: (run: Run) => ComponentChildren;
  /** What is said of an id that nobody knows. */
  unknown: (id: string) => string;
  /** What the table is called, and what is said where there are none. */
  label: string;
  empty: string;
  columns: Column<Run>[];
}

export function Runs<Run extends { run_id: string }>({ title, ask, list, id, one, unknown, label, empty, columns }: Props<Run>): JSX.Element {
  const { value, error } = useAsked(ask, 1000, [list], [list, "jobs"]);
  const opened = id === undefined ? undefined : value?.find((run) => run.run_id === id);
  if (opened) return <>{one(opened)}</>;
  return (
    <>
      <h1>{title}</h1>
      <Problem text={error ?? (value && id !== undefined ? unknown(id) : undefined)} />
      {value && <Table label={label} empty={empty} rows={value} columns={columns} />}
    </>
  );
}
