import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { json, text, useAsked } from "./api";
import { fold } from "./jobs";
import { hostOf, useMachines } from "./machines";
import { Card, Problem } from "./show";

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
          {found.length} of the last {lines.length} lines
        </span>
      </form>
      <Problem text={error} />
      <pre class="log" tabIndex={0} aria-label={title}>
        {found.join("\n")}
      </pre>
    </>
  );
}

export function Logs({ nodeId }: { nodeId: string | undefined }): JSX.Element {
  const nodes = useMachines();
  const chosen = nodeId ?? nodes.value?.find((node) => node.raylet.state === "ALIVE")?.raylet.nodeId;
  const files = useAsked(
    async () => (chosen ? (await json("/api/v0/logs", { node_id: chosen })).data.result : {}),
    2000,
    [chosen],
  );
  return (
    <>
      <h1>Logs</h1>
      <Problem text={nodes.error ?? files.error} />
      <p>
        <label>
          Node{" "}
          <select value={chosen} onChange={(event) => location.assign(`#/logs/${event.currentTarget.value}`)}>
            {nodes.value?.map((node) => (
              <option value={node.raylet.nodeId}>
                {hostOf(node)} {node.raylet.state === "ALIVE" ? "" : "(gone)"}
              </option>
            ))}
          </select>
        </label>
      </p>
      {Object.entries(files.value ?? {}).map(([kind, names]) => (
        <Card title={kind.replaceAll("_", " ")}>
          <ul class="plain">
            {names.map((name) => (
              <li>
                <a href={`#/file/${chosen}/${encodeURIComponent(name)}`}>{name}</a>
              </li>
            ))}
          </ul>
        </Card>
      ))}
    </>
  );
}
