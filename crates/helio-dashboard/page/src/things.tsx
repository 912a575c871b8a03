// The page of one task, actor, worker or placement group.
import type { JSX } from "preact";
import type { CallStep } from "./answers";
import { isPast, now, rowsWith, useAsked } from "./api";
import { ActorList, TaskList, bundlesOf, tookOf, whyOf } from "./lists";
import { Host } from "./machines";
import { Card, Crumbs, Facts, Id, Problem, State, Table, duration, moment, sentence } from "./show";
import type { Lists } from "./rows";
import type { Thing } from "./show";
import { Stacks } from "./stacks";

/** Asks for the rows of an id, and says so where there are none. */
function useThing<Name extends keyof Lists>(resource: Name, column: keyof Lists[Name] & string, id: string): { rows: Lists[Name][]; problem: string | undefined } {
  const { value, error } = useAsked(() => rowsWith(resource, column, id), 1000, [resource, id], [resource]);
  const named = resource.replaceAll("_", " ").replace(/s$/, "");
  return {
    rows: value ?? [],
    problem: error ?? (value && value.length === 0 ? `There is no ${named} ${id}. It may have ended too long ago: only the latest are kept.` : undefined),
  };
}

// The task that a driver is.
const DRIVERS = "ffffffffffffffff";

function resources(of: Record<string, number> | null): string {
  return Object.entries(of ?? {})
    .map(([name, many]) => `${many} ${name}`)
    .join(", ");
}

function Missing({ part, title, problem }: { part: Thing; title: string; problem: string | undefined }): JSX.Element {
  return (
    <>
      <Crumbs part={part} title={title} />
      <h1>{problem ? "Not found" : "Loading…"}</h1>
      <Problem text={problem} />
    </>
  );
}

function Process({ row }: { row: { pid?: number | null; worker_pid?: number | null; worker_id?: string | null } }): JSX.Element | null {
  const pid = row.worker_pid ?? row.pid;
  if (!pid) return null;
  return row.worker_id ? <a href={`#/workers/${row.worker_id}`}>{pid}</a> : <>{pid}</>;
}

/** What an attempt went through: each state with how long it lasted. */
function Life({ events, end }: { events: CallStep[] | null; end: number }): JSX.Element {
  const rows = (events ?? []).map((event, at) => ({ ...event, lasted: (events![at + 1]?.created_ms ?? end) - event.created_ms, isLast: at === events!.length - 1 }));
  return (
    <Table
      label="States"
      empty="Its states are not known."
      rows={rows}
      columns={[
        { title: "State", of: (row) => <State of={row.state} /> },
        { title: "Entered", of: (row) => moment(row.created_ms) },
        { title: "Lasted", of: (row) => (row.isLast && /FINISHED|FAILED/.test(row.state) ? "" : duration(row.lasted)), number: true },
      ]}
    />
  );
}

export function Task({ id }: { id: string }): JSX.Element {
  const { rows, problem } = useThing("tasks", "task_id", id);
  const attempts = [...rows].sort((a, b) => b.attempt_number - a.attempt_number);
  const row = attempts[0];
  if (!row) return <Missing part="tasks" title="Tasks" problem={problem} />;
  return (
    <>
      <Crumbs part="tasks" title="Tasks" />
      <h1>
        {row.name} <State of={row.state} />
      </h1>
      <Problem text={problem} />
      {row.why && <p>{row.why}</p>}
      <div class="grid half">
        <Card title="About" more={row.worker_pid && !isPast() ? <a href={`#/log/task_id/${id}`}>Log</a> : undefined}>
          <Facts
            of={[
              ["Id", <Id of={id} whole />],
              ["Function", row.func_or_class_name],
              ["Kind", row.type.toLowerCase().replaceAll("_", " ")],
              ["Duration", tookOf(row)],
              ["Node", row.node_id && <Host of={row.node_id} />],
              ["Process", <Process row={row} />],
              ["Job", <Id of={row.job_id} to="jobs" />],
              ["Actor", row.actor_id && <Id of={row.actor_id} to="actors" />],
              ["Called by", row.parent_task_id && (row.parent_task_id.startsWith(DRIVERS) ? "the driver" : <Id of={row.parent_task_id} to="tasks" />)],
              ["Placement group", row.placement_group_id && <Id of={row.placement_group_id} to="placement_groups" />],
              ["Resources", resources(row.required_resources)],
              ["Called at", row.call_site && <code>{row.call_site}</code>],
              ["Environment", row.runtime_env_info && <code>{JSON.stringify(row.runtime_env_info)}</code>],
            ]}
          />
        </Card>
        <Card title="States">
          <Life events={row.events} end={row.end_time_ms || now()} />
        </Card>
      </div>
      {row.error_message && (
        <Card title={row.error_type ?? "Error"}>
          <pre class="message">{row.error_message}</pre>
        </Card>
      )}
      {attempts.length > 1 && (
        <Card title="Attempts">
          <Table
            label="Attempts"
            empty=""
            rows={attempts}
            columns={[
              { title: "Attempt", of: (one) => one.attempt_number, number: true },
              { title: "State", of: (one) => <State of={one.state} /> },
              { title: "Duration", of: tookOf, number: true },
              { title: "Node", of: (one) => <Host of={one.node_id} /> },
              { title: "Reason", of: (one) => <span class="wrap">{whyOf(one)}</span> },
            ]}
          />
        </Card>
      )}
      <h2>Tasks it called</h2>
      <TaskList fixed={[{ column: "parent_task_id", predicate: "=", value: id }]} limit={20} />
    </>
  );
}

export function Actor({ id }: { id: string }): JSX.Element {
  const { rows, problem } = useThing("actors", "actor_id", id);
  const row = rows[0];
  const { value: workers } = useAsked(
    async () => (row?.pid ? (await rowsWith("workers", "pid", String(row.pid))).filter((one) => one.node_id === row.node_id && one.is_alive) : []),
    5000,
    [row?.pid, row?.node_id],
  );
  if (!row) return <Missing part="actors" title="Actors" problem={problem} />;
  const cause = row.death_cause?.actor_died_error_context?.error_message;
  return (
    <>
      <Crumbs part="actors" title="Actors" />
      <h1>
        {row.class_name} {row.name && <em>{row.name}</em>} <State of={row.state} />
      </h1>
      <Problem text={problem} />
      {row.why && <p>{row.why}</p>}
      {cause && (
        <Card title="Cause of death">
          <pre class="message">{sentence(cause)}</pre>
        </Card>
      )}
      <Card title="About" more={row.pid && !isPast() ? <a href={`#/log/actor_id/${id}`}>Log</a> : undefined}>
        <Facts
          of={[
            ["Id", <Id of={id} whole />],
            ["Node", row.node_id && <Host of={row.node_id} />],
            ["Process", row.pid ? (workers?.[0] ? <a href={`#/workers/${workers[0].worker_id}`}>{row.pid}</a> : row.pid) : null],
            ["Job", <Id of={row.job_id} to="jobs" />],
            ["Namespace", row.ray_namespace],
            ["Created", moment(row.creation_time_ms)],
            ["Ended", moment(row.end_time_ms)],
            ["Detached", row.is_detached ? "yes" : "no"],
            ["Restarts", row.num_restarts],
            ["Resources", resources(row.required_resources)],
            ["Placement group", row.placement_group_id && <Id of={row.placement_group_id} to="placement_groups" />],
            ["Representation", row.repr_name],
            ["Created at", row.call_site && <code>{row.call_site}</code>],
          ]}
        />
      </Card>
      <h2>Tasks</h2>
      <TaskList fixed={[{ column: "actor_id", predicate: "=", value: id }]} limit={50} />
    </>
  );
}

export function Worker({ id }: { id: string }): JSX.Element {
  const { rows, problem } = useThing("workers", "worker_id", id);
  const row = rows[0];
  if (!row) return <Missing part="workers" title="Workers" problem={problem} />;
  return (
    <>
      <Crumbs part="workers" title="Workers" />
      <h1>
        Process {row.pid} on <Host of={row.node_id} /> <State of={row.is_alive ? "ALIVE" : "ENDED"} />
      </h1>
      <Problem text={problem} />
      <Card title="About">
        <Facts
          of={[
            ["Id", <Id of={id} whole />],
            ["Kind", row.worker_type.toLowerCase()],
            ["Job", row.job_id && <Id of={row.job_id} to="jobs" />],
            ["Started", moment(row.start_time_ms)],
            ["Ended", moment(row.end_time_ms)],
            ["Exit", sentence(row.exit_detail)],
            ["Resources", resources(row.required_resources)],
            ["Environment", row.runtime_env && <code>{row.runtime_env}</code>],
            ["Debugger", row.debugger_port ? `waiting at port ${row.debugger_port}` : null],
          ]}
        />
      </Card>
      {row.is_alive && row.worker_type === "WORKER" && !isPast() && <Stacks node={row.node_id} pid={row.pid} />}
      <h2>Tasks</h2>
      <TaskList fixed={[{ column: "worker_id", predicate: "=", value: id }]} limit={50} />
    </>
  );
}

export function Group({ id }: { id: string }): JSX.Element {
  const { rows, problem } = useThing("placement_groups", "placement_group_id", id);
  const row = rows[0];
  if (!row) return <Missing part="placement_groups" title="Placement groups" problem={problem} />;
  const placed = row.stats;
  return (
    <>
      <Crumbs part="placement_groups" title="Placement groups" />
      <h1>
        {row.name || "Unnamed group"} <State of={row.state} />
      </h1>
      <Problem text={problem} />
      {row.why && <p>{row.why}</p>}
      <Card title="About">
        <Facts
          of={[
            ["Id", <Id of={id} whole />],
            ["Job", <Id of={row.creator_job_id} to="jobs" />],
            ["Bundles", bundlesOf(row)],
            ["Created", moment(row.creation_time_ms)],
            ["Detached", row.is_detached ? "yes" : "no"],
            ["Placed in", placed?.end_to_end_creation_latency_ms ? duration(placed.end_to_end_creation_latency_ms) : null],
            ["Attempts", placed?.scheduling_attempt],
          ]}
        />
      </Card>
      <Card title="Bundles">
        <Table
          label="Bundles"
          empty="The group has no bundles."
          rows={row.bundles ?? []}
          columns={[
            { title: "Bundle", of: (one) => one.bundle_id.bundle_index, number: true },
            { title: "Resources", of: (one) => resources(one.unit_resources) },
            { title: "Node", of: (one) => <Host of={one.node_id} /> },
          ]}
        />
      </Card>
      <h2>Actors</h2>
      <ActorList fixed={[{ column: "placement_group_id", predicate: "=", value: id }]} limit={50} />
    </>
  );
}
