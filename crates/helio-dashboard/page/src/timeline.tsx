// What ran when, on all processes: as far back as is chosen, closer or further away.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { json, useAsked } from "./api";
import { Lanes, useCalls } from "./lanes";
import { Card, Problem, duration } from "./show";

/** A length of time that was chosen, in whole seconds. */
function span(ms: number): string {
  return ms < 60_000 ? `${Math.round(ms / 1000)} s` : duration(ms);
}

const PAST_MS = 3_600_000;
const WIDTHS: [number, string][] = [
  [10_000, "10 s"],
  [60_000, "1 min"],
  [300_000, "5 min"],
  [900_000, "15 min"],
  [PAST_MS, "1 h"],
];

export function Timeline({ job: given }: { job: string | undefined }): JSX.Element {
  const [job, setJob] = useState(given ?? "");
  const [width, setWidth] = useState(60_000);
  const [ago, setAgo] = useState(0);
  const known = useCalls(PAST_MS, job);
  const jobs = useAsked(async () => (await json("/api/jobs/")).filter((one) => one.job_id || one.driver_info), 5000, [], ["jobs"]);
  const move = (by: number) => setAgo(Math.min(PAST_MS - width, Math.max(0, ago + by * width)));
  const key = (event: KeyboardEvent) => {
    if (event.key === "ArrowLeft") move(0.25);
    else if (event.key === "ArrowRight") move(-0.25);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <h1>Timeline</h1>
      <div class="filters">
        <label>
          Job{" "}
          <select value={job} onChange={(event) => setJob(event.currentTarget.value)}>
            <option value="">all</option>
            {jobs.value?.map((one) => {
              const id = one.job_id ?? one.driver_info?.id;
              return <option value={id}>{`${one.submission_id ?? id}  ${one.entrypoint.slice(-40)}`}</option>;
            })}
          </select>
        </label>
        {WIDTHS.map(([ms, title]) => (
          <button aria-pressed={width === ms} onClick={() => { setWidth(ms); setAgo(Math.min(ago, PAST_MS - ms)); }}>
            {title}
          </button>
        ))}
        <button onClick={() => move(0.5)} disabled={ago + width >= PAST_MS}>
          Earlier
        </button>
        <button onClick={() => move(-0.5)} disabled={ago === 0}>
          Later
        </button>
        <button onClick={() => setAgo(0)} disabled={ago === 0}>
          Now
        </button>
        <a href={`/api/v0/tasks/timeline?download=1&job_id=${job}`}>Perfetto trace</a>
      </div>
      <Problem text={known.error} />
      <Card title={ago === 0 ? `Last ${span(width)}` : `${span(width)}, until ${span(ago)} ago`}>
        <div tabIndex={0} role="group" aria-label="Timeline; the arrow keys move it" onKeyDown={key}>
          <Lanes label="Timeline" known={known} widthMs={width} agoMs={ago} lanesMax={60} />
        </div>
      </Card>
    </>
  );
}
