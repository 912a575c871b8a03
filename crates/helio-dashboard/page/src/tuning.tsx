// Searches: trials with their parameters and results, as parallel coordinates, curves and a table.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Parameter as Value, SearchRun as Search, Trial } from "./answers";
import { json } from "./api";
import { Chart } from "./chart";
import { Runs } from "./runs";
import { Bar, Card, Crumbs, Cut, Figures, Id, State, Table, count, duration, moment, useWidth } from "./show";

function stateOf(run: Search): string {
  return run.is_left ? "DRIVER ENDED" : run.seen.state;
}

function short(value: Value): string {
  return typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value);
}

const CHOSEN_MAX = 6;

interface Axis {
  name: string;
  /** From 0, at the bottom, to 1. */
  at: (trial: Trial) => number | null;
  ticks: [number, string][];
}

function numbers(name: string, values: number[], of: (trial: Trial) => Value): Axis {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  // Over more than two powers of ten, as learning rates are.
  const isLog = low > 0 && high / low > 100;
  // Of a few choices each one is named.
  const chosen = [...new Set(values)].sort((a, b) => a - b);
  const scale = (value: number) => (isLog ? Math.log(value) : value);
  const width = scale(high) - scale(low);
  const back = (part: number) => (isLog ? Math.exp(scale(low) + part * width) : low + part * width);
  return {
    name: isLog ? `${name} (log)` : name,
    at: (trial) => {
      const value = of(trial);
      return typeof value === "number" ? (width ? (scale(value) - scale(low)) / width : 0.5) : null;
    },
    ticks: !width
      ? [[0.5, short(low)]]
      : chosen.length <= CHOSEN_MAX
        ? chosen.map((value) => [(scale(value) - scale(low)) / width, short(value)])
        : [0, 0.25, 0.5, 0.75, 1].map((part) => [part, short(back(part))]),
  };
}

const NAMES_MAX = 12;

function axisOf(name: string, trials: Trial[], of: (trial: Trial) => Value | undefined): Axis | null {
  const values = trials.map(of).filter((value) => value !== undefined && value !== null) as Value[];
  if (values.length === 0) return null;
  if (values.every((value) => typeof value === "number")) return numbers(name, values as number[], (trial) => of(trial) ?? null);
  const names = [...new Set(values.map(String))].sort();
  if (names.length > NAMES_MAX) return null;
  const place = (value: Value | undefined) => {
    const at = names.indexOf(String(value));
    return at < 0 ? null : names.length > 1 ? at / (names.length - 1) : 0.5;
  };
  return { name, at: (trial) => place(of(trial)), ticks: names.map((one) => [place(one)!, one]) };
}

const [TALL, TOP, LEFT, RIGHT, AXIS] = [300, 30, 76, 90, 120];

/** From the best, blue, to the worst, amber. */
function shade(part: number): string {
  return `light-dark(hsl(${219 - 184 * part} 72% ${44 - 4 * part}%), hsl(${219 - 184 * part} 70% 66%))`;
}

function Parallel({ run }: { run: Search }): JSX.Element | null {
  const { trials, metric, mode, best } = run.seen;
  const [place, seen] = useWidth(1000);
  const names = [...new Set(trials.flatMap((trial) => Object.keys(trial.parameters)))];
  const axes = names.map((name) => axisOf(name, trials, (trial) => trial.parameters[name])).filter((axis) => axis !== null);
  const last = metric ? axisOf(metric, trials, (trial) => trial.value) : null;
  if (last) axes.push(last);
  if (axes.length < 2) return null;
  const wide = Math.max(seen, AXIS * axes.length);
  const x = (axis: number) => LEFT + (axis / (axes.length - 1)) * (wide - LEFT - RIGHT);
  const y = (part: number) => TOP + 10 + (1 - part) * (TALL - TOP - 30);
  const lines = trials.map((trial) => ({ trial, places: axes.map((axis) => axis.at(trial)) })).filter(({ places }) => places.filter((place) => place !== null).length > 1);
  lines.sort((a, b) => Number(a.trial.id === best) - Number(b.trial.id === best));
  return (
    <Card title="Parameters and results">
      <div ref={place} class="scroll" tabIndex={0} role="region" aria-label="Parallel coordinates, may be wider than they are shown">
        <svg class="parallel" viewBox={`0 0 ${wide} ${TALL}`} style={{ width: `${wide}px` }} role="img" aria-label={`Parallel coordinates of ${lines.length} trials: ${axes.map((axis) => axis.name).join(", ")}`}>
          {lines.map(({ trial, places }) => {
            const end = last?.at(trial) ?? null;
            const part = end === null ? 1 : mode === "max" ? 1 - end : end;
            const points = places.flatMap((place, at) => (place === null ? [] : [`${x(at)} ${y(place)}`]));
            return (
              <path class={trial.id === best ? "best" : ""} d={`M${points.join("L")}`} style={{ stroke: shade(part) }}>
                <title>{`${trial.name}: ${Object.entries(trial.parameters).map(([name, value]) => `${name}=${short(value)}`).join(", ")}${trial.value === null ? "" : `, ${metric}=${short(trial.value)}`}`}</title>
              </path>
            );
          })}
          {axes.map((axis, at) => (
            <>
              <line x1={x(at)} x2={x(at)} y1={y(1)} y2={y(0)} />
              <text class="title" x={x(at)} y={16} text-anchor="middle">
                {axis.name.slice(0, 22)}
              </text>
              {axis.ticks.map(([part, text]) => (
                <text x={x(at) + (at === axes.length - 1 ? 6 : -6)} y={y(part) + 4} text-anchor={at === axes.length - 1 ? "start" : "end"}>
                  {text.slice(0, 12)}
                </text>
              ))}
            </>
          ))}
        </svg>
      </div>
      <p class="legend">
        One line per trial, from blue (best) to amber (worst); the thick line is the best trial.
      </p>
    </Card>
  );
}

function Curves({ run }: { run: Search }): JSX.Element | null {
  const shown = run.seen.trials.filter((trial) => trial.curve && trial.curve.length > 1);
  if (shown.length === 0) return null;
  const sorted = [...shown].sort((a, b) => (run.seen.mode === "max" ? b.value! - a.value! : a.value! - b.value!)).slice(0, 8);
  const times = [...new Set(sorted.flatMap((trial) => trial.curve!.map(([at]) => at)))].sort((a, b) => a - b);
  const series = sorted.map((trial) => {
    const known = new Map(trial.curve!);
    return { label: trial.id, values: times.map((at) => known.get(at) ?? null) };
  });
  return (
    <Card title={`${run.seen.metric} of the best trials`}>
      <Chart label={`${run.seen.metric} over iterations`} times={times} series={series} isMoment={false} across="iteration" fromZero={false} />
    </Card>
  );
}

function BestSoFar({ run }: { run: Search }): JSX.Element | null {
  const points = run.seen.best_so_far ?? [];
  if (points.length < 2) return null;
  const began = points[0]![0];
  const steps = new Map<number, number>();
  for (const [at, value] of points) steps.set(at - began, value);
  const times = [...steps.keys()].sort((a, b) => a - b);
  const label = `Best ${run.seen.metric} so far`;
  return (
    <Card title={label}>
      <Chart label={label} times={times} series={[{ label: "best", values: times.map((at) => steps.get(at)!) }]} isMoment={false} isStepped across="seconds" fromZero={false} />
    </Card>
  );
}

function Importance({ run }: { run: Search }): JSX.Element | null {
  const found = run.seen.importance ?? [];
  if (found.length === 0) return null;
  return (
    <Card title="Importance of parameters">
      <Table
        label="Importance of parameters"
        empty=""
        rows={found}
        columns={[
          { title: "Parameter", of: ([name]) => <code>{name}</code> },
          { title: "Share", of: ([name, share]) => <Bar part={share} label={`share of ${name}`}>{`${(100 * share).toFixed(0)} %`}</Bar> },
        ]}
      />
      <p class="legend">Share of the variance in the ranking of trials that a parameter explains by itself.</p>
    </Card>
  );
}

function Errors({ run }: { run: Search }): JSX.Element | null {
  const found = run.seen.errors ?? [];
  if (found.length === 0) return null;
  return (
    <Card title="Errors">
      <Table
        label="Errors"
        empty=""
        rows={found}
        columns={[
          { title: "Trials", of: (error) => count(error.count), number: true },
          { title: "Error", of: (error) => <code class="lines">{error.text}</code> },
          { title: "Examples", of: (error) => <span class="lines">{error.trials.join(", ")}{error.count > error.trials.length ? ", …" : ""}</span> },
        ]}
      />
    </Card>
  );
}

function One({ run }: { run: Search }): JSX.Element {
  const { seen } = run;
  const [order, setOrder] = useState("value");
  const counts = new Map<string, number>();
  for (const { state } of seen.trials) counts.set(state, (counts.get(state) ?? 0) + 1);
  const best = seen.trials.find((trial) => trial.id === seen.best);
  const parameters = [...new Set(seen.trials.flatMap((trial) => Object.keys(trial.parameters)))];
  const sorted = [...seen.trials];
  if (order === "value") sorted.sort((a, b) => (a.value === null ? 1 : b.value === null ? -1 : seen.mode === "max" ? b.value - a.value : a.value - b.value));
  if (order === "slow") sorted.sort((a, b) => b.took_s - a.took_s);
  if (order === "late") sorted.reverse();
  return (
    <>
      <Crumbs part="tuning" title="Tuning" />
      <h1>
        {run.name} <State of={stateOf(run)} />
      </h1>
      <Figures
        of={[
          ["Trials", <>{count(seen.trials.length + seen.left_out)} <small>{seen.total !== null && `of ${count(seen.total)}`}</small></>],
          ["Running", count(counts.get("RUNNING") ?? 0), counts.get("RUNNING") ? "runs" : undefined],
          ["Failed", count(counts.get("ERROR") ?? 0), counts.get("ERROR") ? "bad" : undefined],
          [seen.metric ? `Best ${seen.metric} (${seen.mode})` : "Metric", best && best.value !== null ? short(best.value) : "none yet", best ? "good" : undefined],
          ["Duration", duration(1000 * seen.took_s)],
          ["Started", <small>{moment(1000 * run.started_at)}</small>],
          ["Job", <small><Id of={run.job_id} to="jobs" /></small>],
        ]}
      />
      {best && (
        <p class="wrap">
          Best trial, {best.name}: <code>{Object.entries(best.parameters).map(([name, value]) => `${name}=${short(value)}`).join(", ")}</code>
        </p>
      )}
      <Errors run={run} />
      <BestSoFar run={run} />
      <Parallel run={run} />
      <div class="grid half">
        <Importance run={run} />
        <Curves run={run} />
      </div>
      <Card title="Trials">
        <form class="filters" onSubmit={(event) => event.preventDefault()}>
          <label>
            Sort by{" "}
            <select value={order} onChange={(event) => setOrder(event.currentTarget.value)}>
              <option value="value">best</option>
              <option value="late">newest</option>
              <option value="slow">longest</option>
            </select>
          </label>
          <span class="dim wrap">{seen.folder}</span>
        </form>
        <Cut rows={sorted} most={50}>
          {(shown) => (
            <Table
              label="Trials"
              empty="No trial has started."
              rows={shown}
              columns={[
                { title: "Trial", of: (trial) => <code>{trial.id}</code> },
                { title: "State", of: (trial) => <State of={trial.state} /> },
                { title: seen.metric ?? "Result", of: (trial) => (trial.value === null ? "" : short(trial.value)), number: true },
                ...parameters.map((name) => ({
                  title: name,
                  of: (trial: Trial) => (name in trial.parameters ? short(trial.parameters[name]!) : ""),
                  number: seen.trials.every((trial) => typeof (trial.parameters[name] ?? 0) === "number"),
                })),
                { title: "Iterations", of: (trial) => trial.iterations, number: true },
                { title: "Duration", of: (trial) => duration(1000 * trial.took_s), number: true },
                { title: "Ended by", of: (trial) => <span class="lines">{trial.error.split("\n").pop() || trial.stopped_by}</span> },
              ]}
            />
          )}
        </Cut>
        {seen.left_out > 0 && <p class="dim">{seen.left_out} earlier trials are not listed.</p>}
      </Card>
    </>
  );
}

export function Tuning({ id }: { id: string | undefined }): JSX.Element {
  return (
    <Runs<Search>
      title="Tuning"
      ask={async () => (await json("/api/v0/tuning")).runs}
      list="tuning"
      id={id}
      one={(run) => <One run={run} />}
      unknown={(wanted) => `There is no search ${wanted}; only the latest are kept.`}
      label="Searches"
      empty="No search has been started in this cluster."
      columns={[
        { title: "Search", of: (run) => <a href={`#/tuning/${run.run_id}`}>{run.name}</a> },
        { title: "State", of: (run) => <State of={stateOf(run)} /> },
        { title: "Trials", of: (run) => `${run.seen.trials.length + run.seen.left_out}${run.seen.total !== null ? ` / ${run.seen.total}` : ""}`, number: true },
        { title: "Metric", of: (run) => run.seen.metric },
        { title: "Best", of: (run) => { const found = run.seen.trials.find((trial: Trial) => trial.id === run.seen.best); return found?.value == null ? "" : short(found.value); }, number: true },
        { title: "Duration", of: (run) => duration(1000 * run.seen.took_s), number: true },
        { title: "Started", of: (run) => <span class="moment">{moment(1000 * run.started_at)}</span> },
        { title: "Job", of: (run) => <Id of={run.job_id} to="jobs" /> },
      ]}
    />
  );
}
