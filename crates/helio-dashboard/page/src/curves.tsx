// The metrics that runs have reported, those of one run or of several over each other.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { RunCurve as Curve, RunCurves as Curves } from "./answers";
import { json, useAsked } from "./api";
import { Chart, short } from "./chart";
import type { Mark } from "./chart";
import { Problem } from "./show";

/** Whose curves they are. */
export interface Drawn {
  run_id: string;
  name: string;
  marks: Mark[];
}

type Over = "time" | "steps";

export function figure(value: number | null): string {
  return value === null ? "not finite" : short(value);
}

function curvesOf(run: string): Promise<Curves> {
  return json("/api/v0/training/{run}/curves", { run });
}

/** On one axis; of a step that was made again the later value counts. */
function aligned(curves: (Curve | undefined)[], over: Over): { times: number[]; values: (number | null)[][] } {
  const found = curves.map((curve) => {
    const places = over === "time" ? curve?.at : curve?.step;
    return new Map((places ?? []).map((place, at) => [place, curve!.value[at]!]));
  });
  const times = [...new Set(found.flatMap((one) => [...one.keys()]))].sort((a, b) => a - b);
  return { times, values: found.map((one) => times.map((time) => one.get(time) ?? null)) };
}

function Facts({ runs, curves }: { runs: Drawn[]; curves: (Curve | undefined)[] }): JSX.Element {
  const only = runs.length === 1 ? curves[0] : undefined;
  const others = curves.reduce((sum, curve) => sum + (curve?.others ?? 0), 0);
  const facts = only
    ? [`last ${figure(only.last)}`]
    : curves.flatMap((curve, at) => (curve ? [`${at + 1}: ${figure(curve.last)}`] : []));
  if (only && only.value.length > 0) {
    facts.push(`min ${figure(Math.min(...only.value))}`, `max ${figure(Math.max(...only.value))}`);
  }
  if (others > 0) facts.push(`${others} NaN or infinite`);
  return <p class="dim">{(only ? "" : "last ") + facts.join(", ")}</p>;
}

export function Metrics({ runs }: { runs: Drawn[] }): JSX.Element | null {
  const [over, setOver] = useState<Over>(runs.length === 1 ? "time" : "steps");
  const ids = runs.map((run) => run.run_id);
  const { value, error } = useAsked(() => Promise.all(ids.map(curvesOf)), 2000, [ids.join()], ["training"]);
  const names = [...new Set((value ?? []).flatMap((run) => run.curves.map((curve) => curve.name)))];
  const leftOut = Math.max(0, ...(value ?? []).map((run) => run.left_out));
  // Times of two runs have nothing to do with each other's restarts.
  const marks = over === "time" && runs.length === 1 ? runs[0]!.marks : [];
  return (
    <section class="metrics">
      <h2>Metrics</h2>
      <Problem text={error} />
      {value && names.length === 0 && <p class="empty">No numeric metrics have been reported.</p>}
      {names.length > 0 && (
        <p class="filters">
          <label>
            X axis{" "}
            <select value={over} onChange={(event) => setOver(event.currentTarget.value as Over)}>
              <option value="time">time since the start</option>
              <option value="steps">step</option>
            </select>
          </label>
          {runs.length > 1 && runs.map((run, at) => <span class={`run-${at}`}>{`${at + 1}: ${run.name}`}</span>)}
        </p>
      )}
      <div class="curves">
        {names.map((name) => {
          const curves = value!.map((run) => run.curves.find((curve) => curve.name === name));
          const { times, values } = aligned(curves, over);
          const series = runs.map((_, at) => ({ label: runs.length === 1 ? "value" : `${at + 1}: ${runs[at]!.name}`, values: values[at]! }));
          return (
            <section class="card" key={name}>
              <h3>{name}</h3>
              <Facts runs={runs} curves={curves} />
              {times.length > 0 && (
                <Chart
                  label={`${name} over ${over}`}
                  times={times}
                  series={series}
                  isMoment={false}
                  across={over === "time" ? "seconds" : "step"}
                  fromZero={false}
                  marks={marks}
                />
              )}
            </section>
          );
        })}
      </div>
      {leftOut > 0 && <p class="dim">{leftOut} more metrics not drawn.</p>}
    </section>
  );
}
