// Actors and tasks: lists of any length, page by page, with filters.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { json, list, useAsked } from "./api";
import type { Filter } from "./api";
import { Card, Id, Problem, State, Table, duration } from "./show";
import type { Column } from "./show";

const LIMIT = 100;

function List(props: { resource: string; states: string[]; named: string; columns: Column[] }): JSX.Element {
  const [state, setState] = useState("");
  const [name, setName] = useState("");
  // The keys after which the pages up to this one begin.
  const [pages, setPages] = useState<(string | null)[]>([null]);
  const filters: Filter[] = [];
  if (state) filters.push({ column: "state", predicate: "=", value: state });
  if (name) filters.push({ column: props.named, predicate: "=", value: name });
  const after = pages[pages.length - 1] ?? null;
  const { value, error } = useAsked(() => list(props.resource, filters, LIMIT, after), 1000, [props.resource, state, name, after]);
  const anew = (set: (value: string) => void) => (event: Event) => {
    set((event.target as HTMLInputElement | HTMLSelectElement).value.trim());
    setPages([null]);
  };
  return (
    <>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          State{" "}
          <select value={state} onChange={anew(setState)}>
            <option value="">any</option>
            {props.states.map((one) => (
              <option>{one}</option>
            ))}
          </select>
        </label>
        <label>
          {props.named} <input value={name} onChange={anew(setName)} placeholder="any" />
        </label>
        {value && (
          <span class="dim" role="status">
            {value.num_filtered} of {value.total}
          </span>
        )}
      </form>
      <Problem text={error} />
      <Problem text={value?.partial_failure_warning} />
      {value && (
        <>
          <Table label={props.resource} columns={props.columns} rows={value.result} empty={`No ${props.resource} here.`} />
          <p class="pages">
            <button disabled={pages.length === 1} onClick={() => setPages(pages.slice(0, -1))}>
              Previous
            </button>{" "}
            <button disabled={value.next === null} onClick={() => setPages([...pages, value.next])}>
              Next
            </button>
          </p>
        </>
      )}
    </>
  );
}

function logOf(kind: string, id: string): JSX.Element {
  return <a href={`#/log/${kind}/${id}`}>log</a>;
}

export function Actors(): JSX.Element {
  return (
    <>
      <h1>Actors</h1>
      <List
        resource="actors"
        named="class_name"
        states={["DEPENDENCIES_UNREADY", "PENDING_CREATION", "ALIVE", "RESTARTING", "DEAD"]}
        columns={[
          { title: "Class", of: (row) => row.class_name },
          { title: "Name", of: (row) => row.name },
          { title: "State", of: (row) => <State of={row.state} /> },
          { title: "Why", of: (row) => row.why || row.death_cause?.actor_died_error_context?.error_message },
          { title: "Process", of: (row) => row.pid || "" },
          { title: "Node", of: (row) => <Id of={row.node_id} /> },
          { title: "Restarts", of: (row) => row.num_restarts },
          { title: "Job", of: (row) => row.job_id },
          { title: "Id", of: (row) => <Id of={row.actor_id} /> },
          { title: "", of: (row) => (row.pid ? logOf("actor_id", row.actor_id) : null) },
        ]}
      />
    </>
  );
}

function Functions(): JSX.Element {
  const { value, error } = useAsked(
    async () => Object.values((await json("/api/v0/tasks/summarize")).data.result.result.node_id_to_summary.cluster.summary) as any[],
    2000,
    [],
  );
  return (
    <Card title="By function">
      <Problem text={error} />
      <Table
        label="Functions"
        empty="No function was called yet."
        rows={value ?? []}
        columns={[
          { title: "Function", of: (row) => row.func_or_class_name },
          { title: "Kind", of: (row) => row.type.toLowerCase().replaceAll("_", " ") },
          {
            title: "Calls",
            of: (row) =>
              Object.entries(row.state_counts as Record<string, number>).map(([state, count]) => (
                <span class="count">
                  {count} <State of={state} />
                </span>
              )),
          },
        ]}
      />
    </Card>
  );
}

export function Tasks(): JSX.Element {
  return (
    <>
      <h1>Tasks</h1>
      <Functions />
      <List
        resource="tasks"
        named="name"
        states={["PENDING_ARGS_AVAIL", "PENDING_NODE_ASSIGNMENT", "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY", "RUNNING", "FINISHED", "FAILED"]}
        columns={[
          { title: "Task", of: (row) => row.name },
          { title: "State", of: (row) => <State of={row.state} /> },
          { title: "Why", of: (row) => row.why || row.error_message || row.error_type },
          { title: "Took", of: (row) => (row.start_time_ms && row.end_time_ms ? duration(row.end_time_ms - row.start_time_ms) : "") },
          { title: "Attempt", of: (row) => row.attempt_number },
          { title: "Process", of: (row) => row.worker_pid || "" },
          { title: "Node", of: (row) => <Id of={row.node_id} /> },
          { title: "Job", of: (row) => row.job_id },
          { title: "Id", of: (row) => <Id of={row.task_id} /> },
          { title: "", of: (row) => (row.worker_pid ? logOf("task_id", row.task_id) : null) },
        ]}
      />
    </>
  );
}
