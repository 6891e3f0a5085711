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

/** The room between two lines, by their ordinals. */
export interface Band {
  high: number;
  low: number;
  /** A colour variable of the style sheet. */
  colour: string;
  /** Of the colour, from 0 to 1. */
  opacity: number;
}

interface Props {
  label: string;
  /** Seconds since the epoch. */
  at: number[];
  lines: Line[];
  bands?: Band[];
  /** The value that the axis reaches at the least, so that a flat line has a scale. */
  reach?: number;
  unit: (value: number) => string;
}

const HEIGHT_PX = 220;
const NO_BANDS: Band[] = [];

/** A time series, drawn anew only when its lines, the language or the colours change; new figures are laid in. */
export default function Chart({ label, at, lines, bands = NO_BANDS, reach = 0, unit }: Props): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shade = useShade();
  const { locale, t } = useI18n();
  const time = t("links.series.time");
  const shape = JSON.stringify({ lines: lines.map(({ name, colour, width, dash }) => ({ name, colour, width, dash })), bands });
  const data = useMemo(() => [at, ...lines.map((line) => line.values)] as uPlot.AlignedData, [at, lines]);
  const latest = useRef({ data, unit });

  useEffect(() => {
    latest.current = { data, unit };
    plot.current?.setData(data);
  }, [data, unit]);

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(optionsFor({ shape, element, reach, unit: (value) => latest.current.unit(value), locale, time }), latest.current.data, element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, shade, reach, locale, time]);

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
const TICKS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];
/** Beyond this a time of day alone does not say when. */
const DATED_S = 20 * 3600;

interface Look {
  shape: string;
  element: HTMLElement;
  reach: number;
  unit: (value: number) => string;
  locale: string;
  time: string;
}

function optionsFor({ shape, element, reach, unit, locale, time }: Look): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const tag = locale === "zh" ? "zh-CN" : "en";
  const clock = new Intl.DateTimeFormat(tag, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const dated = new Intl.DateTimeFormat(tag, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const written = (plot: uPlot, at_s: number): string => {
    const shown = plot.data[0];
    const span = (shown[shown.length - 1] ?? 0) - (shown[0] ?? 0);
    return (span > DATED_S ? dated : clock).format(at_s * 1000);
  };
  const font = `11px ${style.fontFamily}`;
  const axis: uPlot.Axis = { stroke: colour("--ink-dim"), font, grid: { stroke: colour("--line-soft"), width: 1 }, ticks: { stroke: colour("--line"), width: 1, size: 4 } };
  const { lines, bands } = JSON.parse(shape) as { lines: Omit<Line, "values">[]; bands: Band[] };
  const faint = (band: Band): string => `color-mix(in srgb, ${colour(band.colour)} ${Math.round(band.opacity * 100)}%, transparent)`;
  return {
    width: element.clientWidth,
    height: HEIGHT_PX,
    hooks: { draw: [readNewest], setCursor: [readNewest] },
    cursor: { y: false, points: { size: 6 } },
    scales: { y: { range: (_, low, high) => [Math.max(0, low - (high - low) * 0.2 - high * 0.02), Math.max(reach, high + (high - low) * 0.2 + high * 0.02 + 1)] } },
    axes: [
      { ...axis, space: 90, incrs: TICKS_S, values: (plot, ticks) => ticks.map((tick) => written(plot, tick)) },
      { ...axis, size: 74, values: (_, ticks) => ticks.map(unit) },
    ],
    // the first series is the time
    bands: bands.map((band) => ({ series: [band.high + 1, band.low + 1], fill: faint(band) })),
    series: [
      { value: (plot, at: number | null) => (at === null ? "–" : written(plot, at)), label: time },
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
