// The page: which part is shown is in the address after `#`.
import { render } from "preact";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { json, useAsked } from "./api";
import { Job, Jobs } from "./jobs";
import { Actors, Tasks } from "./lists";
import { Log, Logs } from "./logs";
import { Nodes } from "./nodes";
import { Overview } from "./overview";
import { Training } from "./training";
import "./style.css";

const PARTS: [string, string][] = [
  ["", "Overview"],
  ["nodes", "Nodes"],
  ["jobs", "Jobs"],
  ["training", "Training"],
  ["actors", "Actors"],
  ["tasks", "Tasks"],
  ["logs", "Logs"],
];

function useHash(): string[] {
  const read = () => location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const [parts, setParts] = useState(read);
  useEffect(() => {
    const changed = () => setParts(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return parts;
}

function Shown({ parts }: { parts: string[] }): JSX.Element {
  const [part, first, second] = parts;
  switch (part) {
    case "":
      return <Overview />;
    case "nodes":
      return <Nodes />;
    case "jobs":
      return first ? <Job id={first} /> : <Jobs />;
    case "training":
      return <Training id={first} otherId={second} />;
    case "actors":
      return <Actors />;
    case "tasks":
      return <Tasks />;
    case "logs":
      return <Logs nodeId={first} />;
    case "file":
      return <Log title={second ?? ""} query={`node_id=${first}&filename=${encodeURIComponent(second ?? "")}`} />;
    case "log":
      return <Log title={`Log of ${first === "actor_id" ? "actor" : "task"} ${second}`} query={`${first}=${second}`} />;
    default:
      return <p>There is no page of that name. <a href="#/">Overview</a></p>;
  }
}

function Whole(): JSX.Element {
  const parts = useHash();
  const cluster = useAsked(async () => (await json("/api/v0/cluster_metadata")).data, 60_000, []);
  const under = { file: "logs", log: "tasks" }[parts[0] ?? ""] ?? parts[0];
  return (
    <>
      <header>
        <a class="name" href="#/">
          Heliostat
        </a>
        <nav aria-label="Parts">
          {PARTS.map(([part, title]) => (
            <a href={`#/${part}`} aria-current={under === part ? "page" : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <span class="dim">{cluster.value?.sessionName}</span>
      </header>
      <main>
        <Shown parts={parts} key={parts.join("/")} />
      </main>
    </>
  );
}

render(<Whole />, document.getElementById("page")!);
