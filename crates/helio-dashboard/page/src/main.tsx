// The page: which part is shown is in the address after `#`.
import { render } from "preact";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { json, standIn, useAsked } from "./api";
import type { PastOfCluster } from "./answers";
import { Datasets } from "./datasets";
import { Job, Jobs } from "./jobs";
import { Actors, Errors, Events, Groups, Objects, Tasks, Workers } from "./lists";
import { Log, Logs } from "./logs";
import { Machines, useMachinesAsked } from "./machines";
import { Metrics } from "./metrics";
import { Node, Nodes } from "./nodes";
import { Overview } from "./overview";
import { Serving } from "./serving";
import { clock, date } from "./show";
import { Actor, Group, Task, Worker } from "./things";
import { Timeline } from "./timeline";
import { Training } from "./training";
import { Tuning } from "./tuning";
import "./style.css";

const PARTS: [string, [string, string][]][] = [
  ["", [["", "Overview"]]],
  [
    "Work",
    [
      ["jobs", "Jobs"],
      ["tasks", "Tasks"],
      ["actors", "Actors"],
      ["timeline", "Timeline"],
      ["errors", "Errors"],
    ],
  ],
  [
    "Libraries",
    [
      ["training", "Training"],
      ["tuning", "Tuning"],
      ["datasets", "Datasets"],
      ["serving", "Serving"],
    ],
  ],
  [
    "Cluster",
    [
      ["nodes", "Nodes"],
      ["metrics", "Metrics"],
      ["workers", "Workers"],
      ["placement_groups", "Placement groups"],
      ["objects", "Objects"],
      ["events", "Events"],
      ["logs", "Logs"],
    ],
  ],
];

/** The parts of the address, and the whole: of two that differ in what follows `?` a list shows other rows. */
function useHash(): { parts: string[]; whole: string } {
  const read = () => ({ parts: location.hash.replace(/^#\/?/, "").replace(/\?.*/, "").split("/").map(decoded), whole: location.hash });
  const [hash, setHash] = useState(read);
  useEffect(() => {
    const changed = () => setHash(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return hash;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function Shown({ parts }: { parts: string[] }): JSX.Element {
  const [part, first, second] = parts;
  switch (part) {
    case "":
      return <Overview />;
    case "nodes":
      return first ? <Node id={first} /> : <Nodes />;
    case "metrics":
      return <Metrics />;
    case "jobs":
      return first ? <Job id={first} /> : <Jobs />;
    case "training":
      return <Training id={first} otherId={second} />;
    case "tuning":
      return <Tuning id={first} />;
    case "datasets":
      return <Datasets id={first} />;
    case "serving":
      return <Serving id={first} />;
    case "actors":
      return first ? <Actor id={first} /> : <Actors />;
    case "tasks":
      return first ? <Task id={first} /> : <Tasks />;
    case "workers":
      return first ? <Worker id={first} /> : <Workers />;
    case "placement_groups":
      return first ? <Group id={first} /> : <Groups />;
    case "timeline":
      return <Timeline job={first} />;
    case "errors":
      return <Errors />;
    case "objects":
      return <Objects />;
    case "events":
      return <Events />;
    case "logs":
      return <Logs nodeId={first} />;
    case "file":
      return <Log title={second ?? ""} query={`node_id=${first}&filename=${encodeURIComponent(second ?? "")}`} />;
    case "log":
      return <Log title={`Log of ${first === "actor_id" ? "actor" : "task"} ${second}`} query={`${first}=${second}`} />;
    default:
      return (
        <>
          <h1>There is no page of that name</h1>
          <p>
            <a href="#/">Overview</a>
          </p>
        </>
      );
  }
}

/** The mirror of a heliostat, and the light that it sends on. */
function Mark(): JSX.Element {
  return (
    <svg viewBox="0 0 18 18" aria-hidden="true">
      <path d="M3 15 15 3" stroke="var(--link)" stroke-width="2.4" stroke-linecap="round" />
      <circle cx="5" cy="5" r="2.6" fill="var(--line-3)" />
      <path d="M9 9 16 14" stroke="var(--line-3)" stroke-width="1.6" stroke-linecap="round" />
    </svg>
  );
}

/** What is seen is over, and until when it is known. */
function Gone({ history }: { history: PastOfCluster }): JSX.Element {
  return (
    <aside class="past" aria-label="This cluster has ended">
      <strong>This cluster has ended.</strong> You see its history of {date(history.begun_ms)}, {clock(history.begun_ms)} to{" "}
      {date(history.ended_ms) === date(history.begun_ms) ? "" : `${date(history.ended_ms)}, `}
      {clock(history.ended_ms)}, with the state at the end. It has no logs, stacks or objects.
      {history.notes.map((note) => (
        <div>{note}</div>
      ))}
    </aside>
  );
}

function Whole(): JSX.Element {
  const { parts, whole } = useHash();
  const [isOpen, setOpen] = useState(false);
  const cluster = useAsked(
    async () => {
      const { data } = await json("/api/v0/cluster_metadata");
      if (data.history) standIn(data.history);
      return data;
    },
    60_000,
    [],
  );
  const history = cluster.value?.history;
  const machines = useMachinesAsked();
  const under = { file: "logs", log: "tasks" }[parts[0] ?? ""] ?? parts[0];
  useEffect(() => {
    setOpen(false);
    const part = PARTS.flatMap(([, all]) => all).find(([name]) => name === under)?.[1];
    document.title = part ? `${part} · Heliostat` : "Heliostat";
  }, [parts.join("/")]);
  return (
    <Machines.Provider value={machines}>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")!.focus(); }}>
        Skip to content
      </a>
      <div class="frame">
        <header class={`side${isOpen ? " open" : ""}`}>
          <a class="name" href="#/">
            <Mark />
            Heliostat
          </a>
          <button class="menu" aria-expanded={isOpen} aria-controls="parts" onClick={() => setOpen(!isOpen)}>
            Menu
          </button>
          <nav aria-label="Parts" id="parts">
            {PARTS.map(([group, all]) => (
              <section>
                {group && <h2>{group}</h2>}
                {all.map(([part, title]) => (
                  <a href={`#/${part}`} aria-current={under === part ? "page" : undefined}>
                    {title}
                  </a>
                ))}
              </section>
            ))}
          </nav>
          <div class="about">
            <span class="clip" title={cluster.value?.sessionName}>{cluster.value?.sessionName}</span>
            {cluster.value && <div>Heliostat {cluster.value.heliostatVersion}</div>}
          </div>
        </header>
        <main id="main" tabIndex={-1}>
          {history && <Gone history={history} />}
          {/* What time it is there is known first. */}
          {(cluster.value || cluster.error) && <Shown parts={parts} key={whole} />}
        </main>
      </div>
    </Machines.Provider>
  );
}

render(<Whole />, document.getElementById("page")!);
