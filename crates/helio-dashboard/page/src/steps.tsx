// Where the time of a step goes: a bar for each rank, in the colours of its phases.
import type { JSX } from "preact";
import type { StepTimes } from "./answers";
import { Card, useWidth } from "./show";

export interface Lane {
  name: string;
  times: StepTimes;
}

// Waiting for others comes last, so that the ranks' own times begin at one line.
const WAITING = "communication";
const LANE = 20;
const LEFT = 90;

/** Of a part of a step, which may be far below a millisecond. */
export function milliseconds(amount: number): string {
  return `${Number((1000 * amount).toPrecision(3))} ms`;
}

export function total(times: StepTimes): number {
  return times.spent.reduce((a, b) => a + b, 0);
}

export function Steps({ phases, lanes }: { phases: string[]; lanes: Lane[] }): JSX.Element {
  const [place, width] = useWidth(1000);
  const longest = Math.max(...lanes.map(({ times }) => total(times))) || 1;
  const order = phases.map((_, at) => at).filter((at) => phases[at] !== WAITING);
  order.push(phases.indexOf(WAITING));
  return (
    <Card title="Step time by phase" more={<span class="dim">longest {milliseconds(longest)}</span>}>
      <div ref={place}>
        <svg class="steps" viewBox={`0 0 ${width} ${LANE * lanes.length}`} role="img" aria-label="Times of a step, by rank">
          {lanes.map(({ name, times }, lane) => {
            let x = LEFT;
            return (
              <>
                <text x={LEFT - 8} y={lane * LANE + 14} text-anchor="end">
                  {name}
                </text>
                {order.map((phase) => {
                  const wide = (times.spent[phase]! / longest) * Math.max(0, width - LEFT);
                  x += wide;
                  return (
                    <rect class={`phase-${phase}`} x={x - wide} y={lane * LANE + 2} width={wide} height={LANE - 5}>
                      <title>{`${name}, ${phases[phase]}: ${milliseconds(times.spent[phase]!)} of ${milliseconds(total(times))}`}</title>
                    </rect>
                  );
                })}
              </>
            );
          })}
        </svg>
      </div>
      <p class="legend">
        {phases.map((name, phase) => (
          <span>
            <i class={`phase-${phase}`} /> {name}
          </span>
        ))}
      </p>
    </Card>
  );
}
