// Everything the chart draws, worked out from what is known and how it is looked at. Pure.
import type { GeoProjection } from "d3-geo";

import type { Link, Place, Site, Transit } from "../api/types";
import { FRAME, greatCircle, lanes, midOf, offsetLine, type Point, type Size, toPath } from "./geometry";
import { type Box, type Placed, placeLabels } from "./labels";
import type { Shape } from "./shapes";

export interface NodeMark {
  id: string;
  kind: "site" | "transit";
  at: Point;
  radius: number;
  shape: Shape;
  state: string;
  stale: boolean;
}

export interface LinkMark {
  id: string;
  paths: string[];
  mid: Point;
  angle: number;
  link: Link;
  /** Too short a line has no room for an arrow. */
  hasArrow: boolean;
  points: Point[];
}

export interface Scene {
  nodes: NodeMark[];
  links: LinkMark[];
  labels: Placed[];
}

const LANE_PX = 5;
const ARROW_FROM_PX = 48;
const RADII: Record<Shape, number> = { square: 7, circle: 7, triangle: 7.5, diamond: 6.5, ring: 4.5, cross: 4.5 };
const SHAPES: Record<string, Shape> = { core: "square", cloud: "circle", edge: "triangle", device: "diamond" };
const TIER_RANK = ["core", "cloud", "edge", "device"];

export interface Network {
  sites: readonly Site[];
  transit: readonly Transit[];
  links: readonly Link[];
}

type WithPlace<T> = T & { place: Place };

export function hasPlace<T extends { place?: Place | null }>(item: T): item is WithPlace<T> {
  return item.place !== undefined && item.place !== null && Number.isFinite(item.place.lat) && Number.isFinite(item.place.lon);
}

export function buildScene(network: Network, projection: GeoProjection, size: Size, emphasis: ReadonlySet<string>): Scene {
  const sites = network.sites.filter(hasPlace);
  const transit = network.transit.filter(hasPlace);
  const places = new Map([...transit, ...sites].map((point) => [point.name, point.place]));
  // Sites last, so that they lie over transit points in the same city.
  const nodes = [...transit.map((point) => transitMark(point, projection)), ...sites.map((site) => siteMark(site, projection))];
  const links = linkMarks(network.links, places, projection);
  return { nodes, links, labels: labelsFor(nodes, links, sites, size, emphasis) };
}

function project(projection: GeoProjection, place: Place): Point {
  return projection([place.lon, place.lat]) ?? [-100, -100];
}

function siteMark(site: WithPlace<Site>, projection: GeoProjection): NodeMark {
  const shape = SHAPES[site.tier] ?? "circle";
  return { id: site.name, kind: "site", at: project(projection, site.place), radius: RADII[shape], shape, state: site.state, stale: site.stale ?? false };
}

function transitMark(point: WithPlace<Transit>, projection: GeoProjection): NodeMark {
  const shape = point.relay === false ? "cross" : "ring";
  const state = point.stale ? "lost" : "transit";
  return { id: point.name, kind: "transit", at: project(projection, point.place), radius: RADII[shape], shape, state, stale: point.stale ?? false };
}

function linkMarks(links: readonly Link[], places: ReadonlyMap<string, Place>, projection: GeoProjection): LinkMark[] {
  const lane = lanes(links);
  return links.flatMap((link) => {
    const [from, to] = [places.get(link.from), places.get(link.to)];
    if (!from || !to) return [];
    const lines = greatCircle(projection, from, to).map((line) => offsetLine(line, LANE_PX * (lane.get(link.id) ?? 0.5)));
    const longest = lines.reduce<Point[]>((best, line) => (line.length > best.length ? line : best), []);
    const { at, angle } = midOf(longest);
    return [{ id: link.id, paths: lines.map(toPath), mid: at, angle, link, hasArrow: spanOf(longest) >= ARROW_FROM_PX, points: lines.flat() }];
  });
}

function spanOf(line: readonly Point[]): number {
  const [a, b] = [line[0], line.at(-1)];
  return a && b ? Math.hypot(a[0] - b[0], a[1] - b[1]) : 0;
}

function labelsFor(nodes: readonly NodeMark[], links: readonly LinkMark[], sites: readonly Site[], size: Size, emphasis: ReadonlySet<string>): Placed[] {
  const tiers = new Map(sites.map((site) => [site.name, site.tier]));
  const tools: Box = { x0: size.width - 52, y0: 0, x1: size.width, y1: 112 };
  const marks: Box[] = nodes.map(({ at: [x, y], radius }) => ({ x0: x - radius - 2, y0: y - radius - 2, x1: x + radius + 2, y1: y + radius + 2 }));
  const wanted = nodes.map((node) => ({
    id: node.id,
    text: node.id,
    at: node.at,
    radius: emphasis.has(node.id) ? node.radius + 6 : node.radius,
    rank: emphasis.has(node.id) ? -1 : node.kind === "transit" ? 10 : Math.max(0, TIER_RANK.indexOf(tiers.get(node.id) ?? "")),
    fontSize: node.kind === "transit" ? 10.5 : 12,
  }));
  const lines = links.flatMap((link) => link.points);
  return placeLabels(wanted, [...marks, tools], { x0: FRAME.left + 6, y0: 4, x1: size.width - 4, y1: size.height - FRAME.bottom - 6 }, lines);
}
