// Projection, great circles and their lanes on the screen. Pure: no DOM.
import { geoInterpolate, geoNaturalEarth1, type GeoProjection } from "d3-geo";

import type { Place } from "../api/types";

export type Point = readonly [number, number];

export interface Size {
  width: number;
  height: number;
}

/** Zoom and shift laid over the fitted projection, in screen pixels. */
export interface View {
  k: number;
  x: number;
  y: number;
}

/** What the degrees along the edges take up, in pixels. */
export const FRAME = { left: 34, bottom: 18 } as const;

export const WHOLE: View = { k: 1, x: 0, y: 0 };
/** Never closer than this many degrees across, so that a single site is not shown without any coast. */
const MIN_SPAN_DEG = 16;

const toLonLat = (place: Place): [number, number] => [place.lon, place.lat];

/** Pacific-centred, so that Asia, Oceania and the Americas are one picture; fitted to the places given. */
export function fittedProjection(places: readonly Place[], size: Size, padding: number): GeoProjection {
  const projection = geoNaturalEarth1().rotate([-150, 0]);
  const pad = Math.min(padding, size.width / 4, size.height / 4);
  const extent: [[number, number], [number, number]] = [
    [pad + FRAME.left, pad],
    [size.width - pad, size.height - pad - FRAME.bottom],
  ];
  if (places.length === 0) return projection.fitExtent(extent, { type: "Sphere" });
  const coordinates = places.flatMap((place) => spread(place, places));
  return raised(projection.fitExtent(extent, { type: "MultiPoint", coordinates }), coordinates, size, pad);
}

/** Moves the picture up where there is nothing above the pole but more of the world below the lower edge. */
function raised(projection: GeoProjection, points: readonly [number, number][], size: Size, pad: number): GeoProjection {
  const y = (lonLat: [number, number]): number => projection(lonLat)?.[1] ?? 0;
  const highest = Math.min(...points.map(y));
  const room = Math.min(y([150, 90]) - 8, y([150, -90]) - size.height, highest - pad);
  if (room <= 0) return projection;
  const [tx, ty] = projection.translate();
  return projection.translate([tx, ty - room]);
}

/** A place, and when all places lie close together also the corners of a least field around it. */
function spread(place: Place, all: readonly Place[]): [number, number][] {
  const lons = all.map((one) => one.lon);
  const lats = all.map((one) => one.lat);
  const span = Math.max(Math.max(...lons) - Math.min(...lons), Math.max(...lats) - Math.min(...lats));
  if (span >= MIN_SPAN_DEG) return [toLonLat(place)];
  const half = (MIN_SPAN_DEG - span) / 2;
  return [
    [place.lon - half, Math.max(-85, place.lat - half)],
    [place.lon + half, Math.min(85, place.lat + half)],
  ];
}

/** The projection seen through a view. The one given is not changed. */
export function viewed(base: GeoProjection, view: View): GeoProjection {
  const [x, y] = base.translate();
  return geoNaturalEarth1()
    .rotate(base.rotate())
    .scale(base.scale() * view.k)
    .translate([x * view.k + view.x, y * view.k + view.y])
    .precision(0.4);
}

/** Zooms by `factor` about a point of the screen. */
export function zoomAbout(view: View, factor: number, at: Point): View {
  const k = Math.min(24, Math.max(0.5, view.k * factor));
  const real = k / view.k;
  return { k, x: at[0] - (at[0] - view.x) * real, y: at[1] - (at[1] - view.y) * real };
}

const STEPS = 48;

/** The great circle between two places as lines on the screen; more than one where it leaves one edge and enters at the other. */
export function greatCircle(projection: GeoProjection, from: Place, to: Place): Point[][] {
  const along = geoInterpolate(toLonLat(from), toLonLat(to));
  const jump = projection.scale() * 2.5;
  const lines: Point[][] = [];
  let line: Point[] = [];
  for (let step = 0; step <= STEPS; step += 1) {
    const point = projection(along(step / STEPS));
    const last = line.at(-1);
    if (!point) continue;
    if (last && Math.hypot(point[0] - last[0], point[1] - last[1]) > jump) {
      lines.push(line);
      line = [];
    }
    line.push(point);
  }
  lines.push(line);
  return lines.filter((part) => part.length > 1);
}

/** A line moved sideways by `distance` to the right of its direction, running back to its ends over `taper` pixels. */
export function offsetLine(line: readonly Point[], distance: number, taper = 26): Point[] {
  const lengths = [0];
  for (let at = 1; at < line.length; at += 1) {
    const [a, b] = [line[at - 1] as Point, line[at] as Point];
    lengths.push((lengths[at - 1] ?? 0) + Math.hypot(b[0] - a[0], b[1] - a[1]));
  }
  const total = lengths.at(-1) ?? 0;
  const ramp = Math.min(taper, total / 3) || 1;
  return line.map((point, at) => {
    const before = line[Math.max(0, at - 1)] as Point;
    const after = line[Math.min(line.length - 1, at + 1)] as Point;
    const [dx, dy] = [after[0] - before[0], after[1] - before[1]];
    const norm = Math.hypot(dx, dy) || 1;
    const edge = Math.min(lengths[at] ?? 0, total - (lengths[at] ?? 0)) / ramp;
    const shift = distance * smooth(Math.min(1, edge));
    // The screen's y runs down: (-dy, dx) points to the right of (dx, dy).
    return [point[0] - (dy / norm) * shift, point[1] + (dx / norm) * shift];
  });
}

function smooth(t: number): number {
  return t * t * (3 - 2 * t);
}

/** The point half way along a line, and the direction there in degrees. */
export function midOf(line: readonly Point[]): { at: Point; angle: number } {
  const middle = Math.floor((line.length - 1) / 2);
  const a = line[middle] ?? ([0, 0] as const);
  const b = line[middle + 1] ?? a;
  return { at: [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2], angle: (Math.atan2(b[1] - a[1], b[0] - a[0]) * 180) / Math.PI };
}

export function toPath(line: readonly Point[]): string {
  return line.map(([x, y], at) => `${at === 0 ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

interface Ends {
  id: string;
  from: string;
  to: string;
}

/**
 * How far to the right of its own direction each link is drawn, in lanes: 0.5, 1.5, ... among the links of the same
 * direction between the same two points. So the two directions lie on either side of the great circle, as on a road.
 */
export function lanes(links: readonly Ends[]): Map<string, number> {
  const used = new Map<string, number>();
  const placed = new Map<string, number>();
  for (const link of [...links].sort((a, b) => (a.id < b.id ? -1 : 1))) {
    const direction = `${link.from}\0${link.to}`;
    const lane = used.get(direction) ?? 0;
    used.set(direction, lane + 1);
    placed.set(link.id, lane + 0.5);
  }
  return placed;
}
