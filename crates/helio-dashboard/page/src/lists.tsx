// Lists of any length, page by page, with filters and in an order.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { AGE_MS, isPast, json, list, now, useAsked } from "./api";
import type { Filter } from "./api";
import type { ActorState, Lists, ObjectState, PlacementGroupState, TaskState } from "./rows";
import { Host } from "./machines";
import { Absent, Card, Id, Name, Problem, State, Table, bytes, count, duration, many, moment, sentence, withShortIds } from "./show";
import type { Column } from "./show";

const LIMIT = 100;

/** A column's name for people. */
function title(column: string): string {
  return column === "pid" ? "Process" : column[0]!.toUpperCase() + column.slice(1).replaceAll("_", " ");
}

interface Props<Name extends keyof Lists> {
  resource: Name;
  /** What people call them. */
  called?: string;
  /** The column with their states, what it is called, and which there are: a value, or a value and its name. */
  state?: string;
  stateTitle?: string;
  states?: (string | [value: string, name: string, filters?: Filter[]])[];
  /** The column that is filtered by a text. */
  named: string;
  /** By which columns they may stand in order, and what that is called; the first one at the beginning. */
  orders?: [string, string][];
  /** What is not shown unless it is asked for, and what that is called. */
  hidden?: { filters: Filter[]; called: string };
  /** What is always so. */
  fixed?: Filter[];
  columns: Column<Lists[Name]>[];
  limit?: number;
  /** What is said of these rows above them. */
  note?: (rows: Lists[Name][]) => ComponentChildren;
}

/** What the address says of filters, as in `#/tasks?state=FAILED`. */
function asked(name: string): string {
  return new URLSearchParams(location.hash.split("?")[1] ?? "").get(name) ?? "";
}

export function List<Name extends keyof Lists>(props: Props<Name>): JSX.Element {
  const [state, setState] = useState(props.fixed ? "" : asked("state"));
  const [name, setName] = useState(props.fixed ? "" : asked("name"));
  const [order, setOrder] = useState(props.orders?.[0]?.[0] ?? "");
  const [all, setAll] = useState(false);
  // The keys after which the pages up to this one begin.
  const [pages, setPages] = useState<(string | null)[]>([null]);
  const filters: Filter[] = [...(props.fixed ?? [])];
  const chosen = props.states?.find((one) => one[0] === state)?.[2];
  if (state) filters.push(...(typeof chosen === "object" ? chosen : [{ column: props.state ?? "state", predicate: "=" as const, value: state }]));
  if (name) filters.push({ column: props.named, predicate: "=", value: name });
  if (props.hidden && !all) filters.push(...props.hidden.filters);
  const after = pages[pages.length - 1] ?? null;
  const question = [props.resource, JSON.stringify(filters), after, order];
  const told = useAsked(() => list(props.resource, filters, props.limit ?? LIMIT, after, order), 1000, question, [props.resource]);
  // Rows that somebody reads may be held: they are those of one question.
  const [held, setHeld] = useState<{ of: string; asked: typeof told } | null>(null);
  const isHeld = held?.of === question.join();
  const { value, error } = isHeld ? held.asked : told;
  const anew = (set: (value: string) => void) => (event: Event) => {
    set((event.target as HTMLInputElement | HTMLSelectElement).value.trim());
    setPages([null]);
  };
  const called = props.called ?? props.resource;
  // What is the same in all rows says nothing.
  const columns = props.columns.filter(({ key }) => !key || !props.fixed?.some(({ column }) => column === key));
  const isNarrowed = state !== "" || name !== "";
  const empty = `No ${called.replaceAll("_", " ")}${isNarrowed ? " match the filter" : props.hidden && !all ? " outside of libraries" : ""}.`;
  return (
    <>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        {props.states && (
          <label>
            {props.stateTitle ?? "State"}{" "}
            <select value={state} onChange={anew(setState)}>
              <option value="">any</option>
              {props.states.map((one) => {
                const [value, name] = typeof one === "string" ? [one, one] : one;
                return <option value={value}>{name}</option>;
              })}
            </select>
          </label>
        )}
        <label>
          {title(props.named)} <input value={name} onChange={anew(setName)} placeholder="any" />
        </label>
        {props.orders && (
          <label>
            Sort by{" "}
            <select value={order} onChange={anew(setOrder)}>
              {props.orders.map(([column, title]) => (
                <option value={column}>{title}</option>
              ))}
            </select>
          </label>
        )}
        {props.hidden && (
          <label>
            <input type="checkbox" checked={all} onChange={(event) => { setAll(event.currentTarget.checked); setPages([null]); }} /> {props.hidden.called}
          </label>
        )}
        {!isPast() && value && value.result.length > 0 && (
          <button type="button" aria-pressed={isHeld} title="Rows stay as they are until they go on" onClick={() => setHeld(isHeld ? null : { of: question.join(), asked: told })}>
            {isHeld ? "Go on" : "Hold"}
          </button>
        )}
        <span class="dim" role="status">
          {value && value.total > 0 && `${count(value.num_filtered)}${props.fixed ? "" : ` of ${count(value.total)}`}`}
        </span>
      </form>
      <Problem text={error} />
      {/* What is missing in a history stands above every page. */}
      <Problem text={isPast() ? undefined : value?.partial_failure_warning} />
      {value && (
        <>
          {props.note?.(value.result)}
          <Table label={called} columns={columns} rows={value.result} empty={empty} />
          {(pages.length > 1 || value.next !== null) && (
            <p class="pages">
              <button disabled={pages.length === 1} onClick={() => setPages(pages.slice(0, -1))}>
                Previous
              </button>
              <button disabled={value.next === null} onClick={() => setPages([...pages, value.next])}>
                Next
              </button>
            </p>
          )}
        </>
      )}
    </>
  );
}

const ACTOR_STATES = ["DEPENDENCIES_UNREADY", "PENDING_CREATION", "ALIVE", "RESTARTING", "DEAD"];
const TASK_STATES: NonNullable<Props<"tasks">["states"]> = [["WAITING", "waiting", ["RUNNING", "FINISHED", "FAILED"].map((value) => ({ column: "state", predicate: "!=", value }))], "PENDING_ARGS_AVAIL", "PENDING_NODE_ASSIGNMENT", "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY", "RUNNING", "FINISHED", "FAILED"];

// Actors that libraries of Heliostat make for themselves.
const OWN_ACTORS = ["_Holder", "ServeController", "ReplicaActor", "ProxyActor", "TrainCoordinator", "TrainWorker", "TrialActor", "MapWorker"];

/** A call, an actor or a placement group. */
type Waiting = { state: string; why: string | null } & Partial<Pick<TaskState, "error_message" | "error_type"> & Pick<ActorState, "death_cause">>;

/** What waits or has failed says why; what runs says that it runs. */
export function whyOf(row: Waiting): string {
  if (row.state === "RUNNING") return "";
  return row.why || row.error_message?.trim().split("\n").pop() || row.error_type || row.death_cause?.actor_died_error_context.error_message || "";
}

function Why({ row }: { row: Waiting }): JSX.Element | null {
  const why = whyOf(row);
  return why ? <span class="lines" title={why}>{withShortIds(why)}</span> : null;
}

export function ActorList({ fixed, limit }: { fixed?: Filter[]; limit?: number }): JSX.Element {
  return (
    <List
      resource="actors"
      named="class_name"
      states={ACTOR_STATES}
      fixed={fixed}
      limit={limit}
      orders={[["creation_time_ms", "newest"]]}
      hidden={{ filters: OWN_ACTORS.map((value) => ({ column: "class_name", predicate: "!=", value })), called: "include actors of libraries" }}
      columns={[
        { title: "Class", of: (row) => <Name of={row.class_name} href={`#/actors/${row.actor_id}`} /> },
        { title: "Name", of: (row) => row.name && <Name of={row.name} /> },
        { title: "State", of: (row) => <><State of={row.state} />{row.num_restarts ? <div class="dim">{many(row.num_restarts, "restart")}</div> : null}</> },
        { title: "Reason", of: (row) => <Why row={row} /> },
        { title: "Node", key: "node_id", of: (row) => <Host of={row.node_id} /> },
        { title: "Process", of: (row) => row.pid || "", number: true },
        { title: "Created", of: (row) => <span class="moment">{moment(row.creation_time_ms)}</span> },
        { title: "Job", key: "job_id", of: (row) => <Id of={row.job_id} to="jobs" /> },
        { title: "Id", of: (row) => <Id of={row.actor_id} to="actors" /> },
      ]}
    />
  );
}

export function Actors(): JSX.Element {
  return (
    <>
      <h1>Actors</h1>
      <ActorList />
    </>
  );
}

function Functions(): JSX.Element {
  const { value, error } = useAsked(
    async () => Object.values((await json("/api/v0/tasks/summarize", { age: AGE_MS })).data.result.result.node_id_to_summary.cluster.summary),
    2000,
    [],
    ["tasks"],
  );
  return (
    <details>
      <summary>Calls by function ({count(value?.length ?? 0)})</summary>
      <Card title="Calls by function">
        <Problem text={error} />
        <Table
          label="Functions"
          empty="No function has been called yet."
          rows={value ?? []}
          columns={[
            { title: "Function", of: (row) => <Name of={row.func_or_class_name} href={`#/tasks?name=${encodeURIComponent(row.func_or_class_name)}`} /> },
            { title: "Kind", of: (row) => row.type.toLowerCase().replaceAll("_", " ") },
            {
              title: "Calls",
              of: (row) =>
                Object.entries(row.state_counts).map(([state, many]) => (
                  <span class="count">
                    {count(many)} <State of={state} />
                  </span>
                )),
            },
          ]}
        />
      </Card>
    </details>
  );
}

export function tookOf(row: Pick<TaskState, "state" | "start_time_ms" | "end_time_ms">): string {
  if (!row.start_time_ms) return "";
  if (row.end_time_ms) return duration(row.end_time_ms - row.start_time_ms);
  return row.state === "RUNNING" ? duration(now() - row.start_time_ms) : "";
}

export function TaskList({ fixed, limit }: { fixed?: Filter[]; limit?: number }): JSX.Element {
  return (
    <List
      resource="tasks"
      named="name"
      states={TASK_STATES}
      fixed={fixed}
      limit={limit}
      orders={[
        ["creation_time_ms", "newest"],
        ["took", "longest"],
        ["attempt_number", "most attempts"],
      ]}
      columns={[
        { title: "Task", of: (row) => <Name of={row.name} href={`#/tasks/${row.task_id}`} /> },
        { title: "State", of: (row) => <><State of={row.state} />{row.attempt_number ? <div class="dim">attempt {row.attempt_number}</div> : null}</> },
        { title: "Reason", of: (row) => <Why row={row} /> },
        { title: "Started", of: (row) => <span class="moment">{moment(row.start_time_ms)}</span> },
        { title: "Duration", of: tookOf, number: true },
        { title: "Node", key: "node_id", of: (row) => <Host of={row.node_id} /> },
        { title: "Process", key: "worker_id", of: (row) => (row.worker_id ? <a href={`#/workers/${row.worker_id}`}>{row.worker_pid}</a> : ""), number: true },
        { title: "Job", key: "job_id", of: (row) => <Id of={row.job_id} to="jobs" /> },
        { title: "Id", of: (row) => <Id of={row.task_id} to="tasks" /> },
      ]}
    />
  );
}

export function Tasks(): JSX.Element {
  return (
    <>
      <h1>Tasks</h1>
      <Functions />
      <TaskList />
    </>
  );
}

/** What has failed, the same error of a function as one. */
export function Errors(): JSX.Element {
  const { value, error } = useAsked(() => json("/api/v0/tasks/errors", { age: AGE_MS }), 1000, [], ["tasks"]);
  return (
    <>
      <h1>Errors</h1>
      <Problem text={error} />
      {value && (
        <Table
          label="Errors"
          empty="No task has failed."
          rows={value.groups}
          columns={[
            { title: "Count", of: (row) => count(row.count), number: true },
            { title: "Function", of: (row) => <Name of={row.function} href={`#/tasks?name=${encodeURIComponent(row.function)}&state=FAILED`} /> },
            { title: "Error", of: (row) => <span class="wrap">{row.message || row.error_type}</span> },
            { title: "Last seen", of: (row) => <span class="moment">{moment(row.last_ms)}</span> },
            { title: "Node", key: "node_id", of: (row) => <Host of={row.node_id} /> },
            { title: "Latest task", of: (row) => <Id of={row.task_id} to="tasks" /> },
          ]}
        />
      )}
      {value && value.left_out > 0 && <p class="dim">{count(value.left_out)} less frequent errors are not listed.</p>}
    </>
  );
}

export function WorkerList({ fixed, limit }: { fixed?: Filter[]; limit?: number }): JSX.Element {
  return (
    <List
      resource="workers"
      named="pid"
      state="is_alive"
      states={[
        ["true", "ALIVE"],
        ["false", "ENDED"],
      ]}
      fixed={fixed}
      limit={limit}
      orders={[["start_time_ms", "newest"]]}
      columns={[
        { title: "Process", of: (row) => <a href={`#/workers/${row.worker_id}`}>{row.pid}</a>, number: true },
        { title: "State", of: (row) => <State of={row.is_alive ? "ALIVE" : "ENDED"} /> },
        { title: "Kind", of: (row) => row.worker_type.toLowerCase() },
        { title: "Node", key: "node_id", of: (row) => <Host of={row.node_id} /> },
        { title: "Started", of: (row) => <span class="moment">{moment(row.start_time_ms)}</span> },
        { title: "Exit", of: (row) => <span class="lines">{sentence(row.exit_detail)}</span> },
        { title: "Job", key: "job_id", of: (row) => <Id of={row.job_id} to="jobs" /> },
        { title: "Id", of: (row) => <Id of={row.worker_id} to="workers" /> },
      ]}
    />
  );
}

export function Workers(): JSX.Element {
  return (
    <>
      <h1>Workers</h1>
      <WorkerList />
    </>
  );
}

export function bundlesOf(row: PlacementGroupState): string {
  const kinds = new Map<string, number>();
  for (const bundle of row.bundles ?? []) {
    const needs = Object.entries(bundle.unit_resources).map(([name, many]) => `${many} ${name}`).join(" and ");
    kinds.set(needs, (kinds.get(needs) ?? 0) + 1);
  }
  return [...kinds].map(([needs, many]) => (many > 1 ? `${many} × ${needs}` : needs)).join(", ");
}

export function Groups(): JSX.Element {
  return (
    <>
      <h1>Placement groups</h1>
      <List
        resource="placement_groups"
        orders={[["creation_time_ms", "newest"]]}
        called="placement groups"
        named="name"
        states={["PENDING", "CREATED", "REMOVED", "RESCHEDULING"]}
        columns={[
          { title: "Name", of: (row) => <Name of={row.name || "unnamed"} href={`#/placement_groups/${row.placement_group_id}`} /> },
          { title: "State", of: (row) => <State of={row.state} /> },
          { title: "Bundles", of: (row) => <Name of={bundlesOf(row)} /> },
          { title: "Reason", of: (row) => <Why row={row} /> },
          { title: "Job", of: (row) => <Id of={row.creator_job_id} to="jobs" /> },
          { title: "Created", of: (row) => <span class="moment">{moment(row.creation_time_ms)}</span> },
          { title: "Id", of: (row) => <Id of={row.placement_group_id} to="placement_groups" /> },
        ]}
      />
    </>
  );
}

/** Whether processes have told where objects were created. */
function hasSites(rows: ObjectState[]): boolean {
  return rows.some((row) => row.call_site !== "disabled");
}

function ObjectCounts(): JSX.Element | null {
  const { value } = useAsked(async () => (await json("/api/v0/objects/summarize")).data.result.result.node_id_to_summary.cluster, 2000, [], ["objects"]);
  if (!value || value.total_objects === 0) return null;
  return (
    <p class="dim">
      {count(value.total_objects)} objects, {bytes(value.total_size_mb * 2 ** 20)}
    </p>
  );
}

export function Objects(): JSX.Element {
  if (isPast()) return <Absent title="Objects" text="A history has no objects." />;
  return (
    <>
      <h1>Objects</h1>
      <ObjectCounts />
      <List
        resource="objects"
        named="pid"
        state="reference_type"
        stateTitle="Reference"
        states={["LOCAL_REFERENCE", "PINNED_IN_MEMORY", "USED_BY_PENDING_TASK", "CAPTURED_IN_OBJECT", "ACTOR_HANDLE"].map((one) => [one, one.toLowerCase().replaceAll("_", " ")])}
        orders={[["object_size", "largest"]]}
        note={(rows) =>
          hasSites(rows) || rows.length === 0 ? null : (
            <p class="dim">
              Where objects are created is not recorded; <code>RAY_record_ref_creation_sites=1</code> in the environment of <code>heliostat start</code> and of drivers turns it on.
            </p>
          )
        }
        columns={[
          { title: "Object", of: (row) => <Id of={row.object_id} /> },
          { title: "Size", of: (row) => (row.object_size > 0 ? bytes(row.object_size) : ""), number: true },
          { title: "Reference", of: (row) => (row.reference_type === "UNKNOWN_STATUS" ? "unknown" : row.reference_type.toLowerCase().replaceAll("_", " ")) },
          { title: "Task", of: (row) => (row.task_status === "NIL" ? "" : <State of={row.task_status} />) },
          { title: "Process", of: (row) => row.pid, number: true },
          { title: "Kind", of: (row) => row.type.toLowerCase() },
          { title: "Address", of: (row) => row.ip },
          { title: "Created at", isKnown: hasSites, of: (row) => (row.call_site === "disabled" ? "" : <code class="wrap">{row.call_site}</code>) },
        ]}
      />
    </>
  );
}

export function Events(): JSX.Element {
  return (
    <>
      <h1>Events</h1>
      <List
        resource="cluster_events"
        called="events"
        named="source_type"
        state="severity"
        stateTitle="Severity"
        states={["INFO", "WARNING", "ERROR", "FATAL"]}
        columns={[
          { title: "Time", of: (row) => <span class="moment">{row.time}</span> },
          { title: "Severity", of: (row) => <State of={row.severity} /> },
          { title: "Source", of: (row) => row.source_type },
          { title: "Message", of: (row) => <span class="wrap">{row.message}</span> },
        ]}
      />
    </>
  );
}
