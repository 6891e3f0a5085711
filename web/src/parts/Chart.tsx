import "uplot/dist/uPlot.min.css";

import { type ReactNode, useEffect, useMemo, useRef } from "react";
import uPlot from "uplot";

import { useI18n } from "../i18n";
import { useShade } from "../theme";

export interface Line {
  name: string;
  /** A colour variable of the style sheet. */
  colour: string;
  width?: number;
  dash?: number[];
  values: (number | null)[];
}

interface Props {
  label: string;
  /** Seconds since the epoch. */
  at: number[];
  lines: Line[];
  unit: (value: number) => string;
}

const HEIGHT_PX = 220;

/** A time series, drawn anew only when its lines, the language or the colours change; new figures are laid in. */
export default function Chart({ label, at, lines, unit }: Props): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shade = useShade();
  const { locale, t } = useI18n();
  const time = t("links.series.time");
  const shape = JSON.stringify(lines.map(({ name, colour, width, dash }) => ({ name, colour, width, dash })));
  const data = useMemo(() => [at, ...lines.map((line) => line.values)] as uPlot.AlignedData, [at, lines]);
  const latest = useRef({ data, unit });

  useEffect(() => {
    latest.current = { data, unit };
    plot.current?.setData(data);
  }, [data, unit]);

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(optionsFor({ shape, element, unit: (value) => latest.current.unit(value), locale, time }), latest.current.data, element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, shade, locale, time]);

  return <div ref={box} className="plot" role="img" aria-label={label} />;
}

/** While nothing is pointed at, the legend reads the newest figures. */
function readNewest(plot: uPlot): void {
  // The plot clears its legend after drawing, in the same turn.
  queueMicrotask(() => {
    if (typeof plot.cursor.idx !== "number") plot.setLegend({ idx: plot.data[0].length - 1 });
  });
}

/** Never finer than the clock that is written below. */
const TICKS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];

interface Look {
  shape: string;
  element: HTMLElement;
  unit: (value: number) => string;
  locale: string;
  time: string;
}

function optionsFor({ shape, element, unit, locale, time }: Look): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const clock = new Intl.DateTimeFormat(locale === "zh" ? "zh-CN" : "en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const font = `11px ${style.fontFamily}`;
  const axis: uPlot.Axis = { stroke: colour("--ink-dim"), font, grid: { stroke: colour("--line-soft"), width: 1 }, ticks: { stroke: colour("--line"), width: 1, size: 4 } };
  const lines = JSON.parse(shape) as Omit<Line, "values">[];
  return {
    width: element.clientWidth,
    height: HEIGHT_PX,
    hooks: { draw: [readNewest], setCursor: [readNewest] },
    cursor: { y: false, points: { size: 6 } },
    scales: { y: { range: (_, low, high) => [Math.max(0, low - (high - low) * 0.2 - high * 0.02), high + (high - low) * 0.2 + high * 0.02 + 1] } },
    axes: [
      { ...axis, space: 90, incrs: TICKS_S, values: (_, ticks) => ticks.map((tick) => clock.format(tick * 1000)) },
      { ...axis, size: 74, values: (_, ticks) => ticks.map(unit) },
    ],
    series: [
      { value: (_, at: number | null) => (at === null ? "–" : clock.format(at * 1000)), label: time },
      ...lines.map((line): uPlot.Series => ({
        label: line.name,
        stroke: colour(line.colour),
        width: line.width ?? 1.2,
        ...(line.dash ? { dash: line.dash } : {}),
        points: { show: false },
        value: (_, value) => (typeof value === "number" ? unit(value) : "–"),
      })),
    ],
  };
}
