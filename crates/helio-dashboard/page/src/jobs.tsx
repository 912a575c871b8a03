import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { JobDetails } from "./answers";
import { isPast, json, now, send, useAsked } from "./api";
import { ActorList, TaskList } from "./lists";
import { idOf, lastOf } from "./overview";
import { Card, Crumbs, Facts, Id, Name, Problem, State, Table, duration, moment } from "./show";

function took(job: JobDetails): string {
  return job.start_time ? duration((job.end_time ?? now()) - job.start_time) : "";
}

/** Commands such as `heliostat global-gc` are drivers for a moment. */
function isOwn(job: JobDetails): boolean {
  return job.type === "DRIVER" && / -m heliostat\./.test(job.entrypoint);
}

export function Jobs(): JSX.Element {
  const { value, error } = useAsked(async () => (await json("/api/jobs/")).reverse(), 1000, [], ["jobs"]);
  const [all, setAll] = useState(false);
  return (
    <>
      <h1>Jobs</h1>
      <Problem text={error} />
      {value?.some(isOwn) && (
        <form class="filters">
          <label>
            <input type="checkbox" checked={all} onChange={(event) => setAll(event.currentTarget.checked)} /> include Heliostat's own commands
          </label>
        </form>
      )}
      {value && (
        <Table
          label="Jobs"
          empty={<>No jobs yet. To submit one: <code>heliostat job submit -- python my_script.py</code></>}
          rows={all ? value : value.filter((job) => !isOwn(job))}
          columns={[
            { title: "Job", of: (job) => <Name of={idOf(job)} href={`#/jobs/${encodeURIComponent(idOf(job))}`} /> },
            { title: "State", of: (job) => <State of={job.status} /> },
            { title: "Command", of: (job) => <code class="clip" title={job.entrypoint}>{shortCommand(job.entrypoint)}</code> },
            { title: "Reason", of: (job) => (job.status === "FAILED" ? <span class="lines" title={job.message ?? ""}>{lastOf(job.message)}</span> : "") },
            { title: "Kind", of: (job) => job.type.toLowerCase() },
            { title: "Started", of: (job) => <span class="moment">{moment(job.start_time)}</span> },
            { title: "Duration", of: took, number: true },
          ]}
        />
      )}
    </>
  );
}

/** A log as it grows: its end is seen, unless somebody has scrolled up. */
export function Tail({ label, text }: { label: string; text: string }): JSX.Element {
  const place = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    const element = place.current!;
    if (isAtEnd.current) element.scrollTop = element.scrollHeight;
  }, [text]);
  return (
    <pre
      ref={place}
      class="log"
      tabIndex={0}
      aria-label={label}
      onScroll={({ currentTarget: at }) => (isAtEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < 80)}
    >
      {text}
    </pre>
  );
}

/** The log of a job, which it follows by a WebSocket. */
function JobLog({ id }: { id: string }): JSX.Element {
  const [lines, setLines] = useState("");
  useEffect(() => {
    setLines("");
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/api/jobs/${encodeURIComponent(id)}/logs/tail`);
    socket.onmessage = (message) => setLines((before) => fold(before + message.data).slice(-LOG_MAX));
    return () => socket.close();
  }, [id]);
  return <Tail label="Log of the job" text={lines || "The job has printed nothing yet."} />;
}

const LOG_MAX = 2_000_000;

/** A line that was written over and over, as progress bars do, is shown as it was last. */
export function fold(text: string): string {
  return text.replace(/[^\n]*\r(?!\n|$)/g, "");
}

export function Job({ id }: { id: string }): JSX.Element {
  const { value: job, error } = useAsked(() => json("/api/jobs/{id}", { id }), 1000, [id], ["jobs"]);
  const [problem, setProblem] = useState<string>();
  const stop = async () => {
    try {
      await send("POST /api/jobs/{id}/stop", { id });
    } catch (error) {
      setProblem(String(error));
    }
  };
  const driver: string | undefined = job?.driver_info?.id ?? job?.job_id ?? undefined;
  const fixed = [{ column: "job_id", predicate: "=" as const, value: driver ?? "" }];
  return (
    <>
      <Crumbs part="jobs" title="Jobs" />
      <h1>
        Job {id} {job && <State of={job.status} />}
      </h1>
      <Problem text={problem ?? error} />
      {job && (
        <>
          <Card
            title="About"
            more={job.type === "SUBMISSION" && !job.end_time && !isPast() ? <button onClick={stop}>Stop</button> : driver && <a href={`#/timeline/${driver}`}>Timeline</a>}
          >
            <Facts
              of={[
                ["Id", <Id of={id} whole />],
                ["Command", <code>{job.entrypoint}</code>],
                ["Message", job.message && <pre class="message">{job.message}</pre>],
                ["Duration", took(job)],
                ["Started", moment(job.start_time)],
                ["Ended", moment(job.end_time)],
                ["Exit code", job.driver_exit_code],
                ["Driver", job.driver_info ? <>job <Id of={job.driver_info.id} />, process {job.driver_info.pid}{job.driver_info.node_ip_address && ` on ${job.driver_info.node_ip_address}`}</> : "none"],
                ["Metadata", Object.keys(job.metadata ?? {}).length > 0 && <code>{JSON.stringify(job.metadata)}</code>],
                ["Runtime environment", Object.keys(job.runtime_env ?? {}).length > 0 && <code>{JSON.stringify(job.runtime_env)}</code>],
              ]}
            />
          </Card>
          {job.type === "SUBMISSION" && !isPast() && (
            <>
              <h2>Log</h2>
              <JobLog id={idOf(job)} />
            </>
          )}
          {driver && (
            <>
              <h2>Tasks</h2>
              <TaskList fixed={fixed} limit={20} />
              <h2>Actors</h2>
              <ActorList fixed={fixed} limit={20} />
            </>
          )}
        </>
      )}
    </>
  );
}

/** A command by what tells it from others: without the folders of its program and of its first file. */
function shortCommand(command: string): string {
  return command.replace(/^\S*\//, "").replace(/(^\S+(?: -\S+)* )\/?(?:[^\s/]+\/){2,}/, "$1…/");
}
