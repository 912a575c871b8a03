// Applications of Serve: deployments, their replicas, latency and queue over time.
import type { JSX } from "preact";
import type { ApplicationRun as Application, Deployment, Moment as Point } from "./answers";
import { json, now } from "./api";
import { Chart } from "./chart";
import { Host } from "./machines";
import { Runs } from "./runs";
import { Bar, Card, Crumbs, Facts, Figures, Id, Problem, State, Table, count, duration, moment } from "./show";

// The controller tells at least every 15 seconds.
const SILENT_S = 40;

function isSilent(app: Application): boolean {
  return now() / 1000 - app.written_at > SILENT_S;
}

function stateOf(app: Application): string {
  return isSilent(app) ? "NO REPORT" : app.seen.state;
}

function lastOf(deployment: Deployment): Point | undefined {
  return deployment.past[deployment.past.length - 1];
}

function milliseconds(value: number | null | undefined): string {
  return value == null ? "" : duration(value < 10 ? Number(value.toFixed(1)) : value);
}

function One({ deployment }: { deployment: Deployment }): JSX.Element {
  const times = deployment.past.map((point) => point[0]);
  const of = (at: number) => deployment.past.map((point) => point[at] as number | null);
  const last = lastOf(deployment);
  return (
    <Card title={deployment.name} more={<State of={deployment.state} />}>
      {deployment.message && <p class="wrap">{deployment.message}</p>}
      <Figures
        of={[
          ["Replicas", <>{deployment.running} <small>of {deployment.target}</small></>, deployment.running < deployment.target ? "other" : undefined],
          ["Requests/s", last?.[4] == null ? "—" : last[4].toFixed(1)],
          ["Errors/s", last?.[5] == null ? "—" : last[5].toFixed(1), last?.[5] ? "bad" : undefined],
          ["Latency p50", milliseconds(last?.[6]) || "—"],
          ["Latency p99", milliseconds(last?.[7]) || "—"],
          ["Queued", count(last?.[3] ?? 0), last?.[3] ? "other" : undefined],
        ]}
      />
      {times.length > 1 && (
        <div class="curves pairs">
          <div>
            <h3>Latency, ms</h3>
            <Chart label={`Latency of ${deployment.name}`} times={times} series={[{ label: "p50", values: of(6) }, { label: "p99", values: of(7) }]} />
          </div>
          <div>
            <h3>Requests in progress and queued</h3>
            <Chart label={`Queue of ${deployment.name}`} times={times} series={[{ label: "in progress", values: of(2) }, { label: "queued", values: of(3) }]} isCount />
          </div>
          <div>
            <h3>Requests/s and errors/s</h3>
            <Chart label={`Requests of ${deployment.name}`} times={times} series={[{ label: "requests", values: of(4) }, { label: "errors", values: of(5) }]} />
          </div>
          <div>
            <h3>Replicas</h3>
            <Chart label={`Replicas of ${deployment.name}`} times={times} series={[{ label: "replicas", values: of(1) }]} isCount />
          </div>
        </div>
      )}
      <Table
        label={`Replicas of ${deployment.name}`}
        empty="The deployment has no replicas."
        rows={deployment.replicas}
        columns={[
          { title: "Replica", of: (one) => (one.actor_id ? <a class="whole" href={`#/actors/${one.actor_id}`}>{one.id.split("#").pop()}</a> : one.id) },
          { title: "State", of: (one) => <State of={one.state} /> },
          { title: "Node", of: (one) => <Host of={one.node_id} /> },
          { title: "Process", of: (one) => one.pid ?? "", number: true },
          { title: "In progress", of: (one) => one.ongoing ?? "", number: true },
          { title: "Requests/s", of: (one) => one.requests_per_s?.toFixed(1) ?? "", number: true },
          { title: "p50", of: (one) => milliseconds(one.p50_ms), number: true },
          { title: "p99", of: (one) => milliseconds(one.p99_ms), number: true },
          { title: "Log", of: (one) => (one.actor_id ? <a href={`#/log/actor_id/${one.actor_id}`}>log</a> : "") },
        ]}
      />
      {deployment.left_out > 0 && <p class="dim">{deployment.left_out} more replicas are not listed.</p>}
    </Card>
  );
}

function Opened({ app }: { app: Application }): JSX.Element {
  const { seen } = app;
  const address = seen.route_prefix === null ? null : `http://${seen.http.host}:${seen.http.port}${seen.route_prefix}`;
  return (
    <>
      <Crumbs part="serving" title="Serving" />
      <h1>
        {app.name} <State of={stateOf(app)} />
      </h1>
      {isSilent(app) && <Problem text={`The last report of Serve's controller is ${duration(now() - 1000 * app.written_at)} old.`} />}
      {seen.message && <p class="wrap">{seen.message}</p>}
      <Card title="About">
        <Facts
          of={[
            ["Address", address && <Id of={address} whole />],
            ["Deployed", moment(1000 * seen.deployed_at)],
            ["Deployments", seen.deployments.length],
          ]}
        />
      </Card>
      {seen.deployments.map((deployment) => (
        <One deployment={deployment} key={deployment.name} />
      ))}
    </>
  );
}

export function Serving({ id }: { id: string | undefined }): JSX.Element {
  return (
    <Runs<Application>
      title="Serving"
      ask={async () => (await json("/api/v0/serving")).runs}
      list="serving"
      id={id}
      one={(app) => <Opened app={app} />}
      unknown={(wanted) => `There is no application ${wanted}.`}
      label="Applications"
      empty="This cluster serves no application."
      columns={[
        { title: "Application", of: (app) => <a href={`#/serving/${encodeURIComponent(app.run_id)}`}>{app.name}</a> },
        { title: "State", of: (app) => <State of={stateOf(app)} /> },
        { title: "Route", of: (app) => <code>{app.seen.route_prefix}</code> },
        {
          title: "Deployments",
          of: (app) =>
            app.seen.deployments.map((one: Deployment) => (
              <div>
                <Bar part={one.target ? one.running / one.target : 1} label={`replicas of ${one.name}`}>
                  {one.name}, {one.running} of {one.target}
                </Bar>
              </div>
            )),
        },
        { title: "Requests/s", of: (app) => app.seen.deployments.map((one: Deployment) => <div>{lastOf(one)?.[4]?.toFixed(1) ?? "—"}</div>), number: true },
        { title: "p99", of: (app) => app.seen.deployments.map((one: Deployment) => <div>{milliseconds(lastOf(one)?.[7]) || "—"}</div>), number: true },
      ]}
    />
  );
}
