// Meridians and parallels for the frame of the chart: where they cross its edges, and how to write them there.
import type { GeoProjection } from "d3-geo";

import type { Size } from "./geometry";

export interface Tick {
  at: number;
  text: string;
}

/** Degrees between lines, so that they stay about 90 to 200 pixels apart. */
export function spacing(projection: GeoProjection): number {
  const perDegree = (projection.scale() * Math.PI) / 180;
  return [1, 2, 5, 10, 15, 30].find((step) => step * perDegree >= 90) ?? 30;
}

export function meridian(lon: number): string {
  const turned = ((((lon + 180) % 360) + 360) % 360) - 180;
  if (turned === 0 || turned === -180) return `${Math.abs(turned)}°`;
  return `${Math.abs(turned)}°${turned > 0 ? "E" : "W"}`;
}

export function parallel(lat: number): string {
  return lat === 0 ? "0°" : `${Math.abs(lat)}°${lat > 0 ? "N" : "S"}`;
}

/** Where meridians cross the lower edge. */
export function bottomTicks(projection: GeoProjection, size: Size, step: number): Tick[] {
  const ticks: Tick[] = [];
  for (let lon = -180; lon < 180; lon += step) {
    const at = crossing((lat) => projection([lon, lat]), -89, 89, 1, size.height);
    if (at !== null && at > 46 && at < size.width - 24) ticks.push({ at, text: meridian(lon) });
  }
  return apart(ticks, 44);
}

/** Where parallels cross the left edge. */
export function leftTicks(projection: GeoProjection, size: Size, step: number): Tick[] {
  const [west, east] = edges(projection);
  const ticks: Tick[] = [];
  for (let lat = -90 + step; lat < 90; lat += step) {
    const at = crossing((lon) => projection([lon, lat]), west, east, 0, 0);
    if (at !== null && at > 12 && at < size.height - 26) ticks.push({ at, text: parallel(lat) });
  }
  return apart(ticks, 18);
}

/** The longitudes just inside the left and right end of the projection. */
function edges(projection: GeoProjection): [number, number] {
  const centre = -projection.rotate()[0];
  return [centre - 179.9, centre + 179.9];
}

/** Follows a line; where its coordinate `axis` passes `edge`, gives the other coordinate. */
function crossing(line: (t: number) => [number, number] | null, from: number, to: number, axis: 0 | 1, edge: number): number | null {
  const steps = 120;
  let before = line(from);
  for (let step = 1; step <= steps; step += 1) {
    const here = line(from + ((to - from) * step) / steps);
    if (before && here && (before[axis] - edge) * (here[axis] - edge) <= 0 && before[axis] !== here[axis]) {
      const part = (edge - before[axis]) / (here[axis] - before[axis]);
      const other = axis === 0 ? 1 : 0;
      return before[other] + (here[other] - before[other]) * part;
    }
    before = here;
  }
  return null;
}

function apart(ticks: Tick[], least: number): Tick[] {
  const kept: Tick[] = [];
  for (const tick of ticks.sort((a, b) => a.at - b.at)) {
    if (tick.at - (kept.at(-1)?.at ?? -Infinity) >= least) kept.push(tick);
  }
  return kept;
}
