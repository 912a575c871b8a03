import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { isPast, json, text, useAsked } from "./api";
import { Tail, fold } from "./jobs";
import { hostOf, useMachines } from "./machines";
import type { LogFile } from "./answers";
import { Absent, Cut, Problem, Table, bytes, count, moment, withShortIds } from "./show";

/** The end of a log, with a search among its lines. */
export function Log({ query, title }: { query: string; title: string }): JSX.Element {
  const [wanted, setWanted] = useState("");
  const [suffix, setSuffix] = useState("out");
  const path = `/api/v0/logs/file?${query}&suffix=${suffix}&lines=2000&filter_ansi_code=true`;
  const { value, error } = useAsked(() => text(path), 1000, [path]);
  const lines = fold(value ?? "").split("\n");
  const found = wanted ? lines.filter((line) => line.toLowerCase().includes(wanted.toLowerCase())) : lines;
  return (
    <>
      <h1>{title}</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Search <input type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
        </label>
        {!query.includes("filename=") && (
          <label>
            Stream{" "}
            <select value={suffix} onChange={(event) => setSuffix(event.currentTarget.value)}>
              <option value="out">output</option>
              <option value="err">errors</option>
            </select>
          </label>
        )}
        <span class="dim" role="status">
          {count(found.length)} of the last {count(lines.length)} lines
        </span>
      </form>
      <Problem text={error} />
      <Tail label={title} text={found.join("\n") || (value === undefined ? "" : wanted ? "No line has that text." : "Nothing has been written into it.")} />
    </>
  );
}

/** Who writes a file: a link to the job, or to the actor or process. */
function Writer({ file: { owner } }: { file: LogFile }): JSX.Element | null {
  if (!owner) return null;
  if (owner.submission_id) return <a href={`#/jobs/${encodeURIComponent(owner.submission_id)}`}>{owner.submission_id}</a>;
  const name = [owner.actor, owner.actor_name].filter(Boolean).join(" ");
  return (
    <>
      {owner.actor_id && <><a href={`#/actors/${owner.actor_id}`}>{name}</a>, </>}
      <a href={`#/workers/${owner.worker_id}`}>process {owner.pid}</a>
    </>
  );
}

const KINDS: Record<string, string> = {
  worker_out: "worker output",
  worker_err: "worker errors",
  raylet: "node daemon",
  gcs_server: "control service",
  core_worker: "worker runtime",
};

function kindOf(file: LogFile): string {
  return KINDS[file.kind] ?? file.kind.replaceAll("_", " ");
}

export function Logs({ nodeId }: { nodeId: string | undefined }): JSX.Element {
  const nodes = useMachines();
  const [wanted, setWanted] = useState("");
  const chosen = nodeId ?? nodes.value?.find((node) => node.raylet.state === "ALIVE")?.raylet.nodeId;
  const { value, error } = useAsked(async () => (chosen && !isPast() ? (await json("/api/v0/logs", { node_id: chosen, detail: 1 })).data.result : undefined), 2000, [chosen]);
  const all = [...(value?.files ?? [])].sort((a, b) => b.modified_ms - a.modified_ms);
  const text = wanted.toLowerCase();
  const nameOf = ({ owner }: LogFile) => String(owner?.actor ?? "");
  const found = all.filter((file) => [file.name, kindOf(file), nameOf(file)].some((one) => one.toLowerCase().includes(text)));
  if (isPast()) return <Absent title="Logs" text="A history has no logs. They are in the folder of the session on each machine." />;
  return (
    <>
      <h1>Logs</h1>
      <Problem text={nodes.error ?? error} />
      <Problem text={value?.silent[0]?.why} />
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Node{" "}
          <select value={chosen} onChange={(event) => location.assign(`#/logs/${event.currentTarget.value}`)}>
            {nodes.value?.map((node) => (
              <option value={node.raylet.nodeId}>
                {hostOf(node)} {node.raylet.state === "ALIVE" ? "" : "(dead)"}
              </option>
            ))}
          </select>
        </label>
        <label>
          Search <input type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value.trim())} placeholder="file, kind or actor" />
        </label>
        <span class="dim" role="status">
          {all.length > 0 && `${count(found.length)} of ${count(all.length)}`}
        </span>
      </form>
      {value && (
        <Cut rows={found} most={100}>
          {(shown) => (
            <Table
              label="Log files"
              empty={all.length > 0 ? "No file matches the search." : "This node has no log files."}
              rows={shown}
              columns={[
                { title: "File", of: (file) => <a class="name" title={file.name} href={`#/file/${chosen}/${encodeURIComponent(file.name)}`}>{withShortIds(file.name)}</a> },
                { title: "Kind", of: kindOf },
                { title: "Written by", of: (file) => <Writer file={file} /> },
                { title: "Size", of: (file) => bytes(file.size), number: true },
                { title: "Modified", of: (file) => <span class="moment">{moment(file.modified_ms)}</span>, number: true },
              ]}
            />
          )}
        </Cut>
      )}
    </>
  );
}
