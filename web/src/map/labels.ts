// Names beside points without overlaps: each takes the first free of several positions, important ones first.
import type { Point } from "./geometry";

export interface Wanted {
  id: string;
  text: string;
  at: Point;
  /** Half the size of the mark that the label stands beside. */
  radius: number;
  /** Smaller first. */
  rank: number;
  fontSize: number;
}

export interface Placed {
  id: string;
  text: string;
  x: number;
  y: number;
  anchor: "start" | "middle" | "end";
  fontSize: number;
  /** From the mark to the label, where they stand apart. */
  leader: readonly [Point, Point] | null;
}

export interface Box {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

/** A fair guess: CJK characters are as wide as the font is high, others 0.56 of it. */
export function textWidth(text: string, fontSize: number): number {
  let width = 0;
  for (const character of text) width += /[\u2e80-\uffef]/.test(character) ? fontSize : fontSize * 0.56;
  return width;
}

const EAST = 0;
/** Directions in degrees, clockwise from east as the screen's y runs down; beside before above or below. */
const DIRECTIONS = [EAST, 180, 90, 270, 40, 320, 140, 220] as const;
const DISTANCES = [0, 14, 28, 44] as const;
/** No label reaches further than this from its mark. */
const REACH_PX = 220;
const MARGIN_PX = 5;

interface Scene {
  marks: readonly Wanted[];
  taken: readonly Box[];
  frame: Box;
  lines: readonly Point[];
}

/**
 * `obstacles` are never covered; points of `lines` are, but a label takes the position that covers the fewest of them.
 * Labels that find no place are left out; their marks still say their name on focus and hover.
 */
export function placeLabels(wanted: readonly Wanted[], obstacles: readonly Box[], frame: Box, lines: readonly Point[] = []): Placed[] {
  const taken: Box[] = [...obstacles];
  const placed: Placed[] = [];
  const order = [...wanted].sort((a, b) => a.rank - b.rank || (a.id < b.id ? -1 : 1));
  for (const label of order) {
    const candidate = bestFree(label, { marks: wanted, taken, frame, lines });
    if (!candidate) continue;
    taken.push(candidate.box);
    placed.push(candidate.placed);
  }
  return placed;
}

/** Of the free positions the one that covers least, lies nearest and cannot be taken for another mark's name. */
function bestFree(label: Wanted, scene: Scene): { box: Box; placed: Placed } | null {
  const near = scene.lines.filter(([x, y]) => Math.abs(x - label.at[0]) < REACH_PX && Math.abs(y - label.at[1]) < REACH_PX);
  const others = scene.marks.filter((mark) => mark.id !== label.id);
  let best: { box: Box; placed: Placed } | null = null;
  let least = Infinity;
  for (const distance of DISTANCES) {
    for (const [preference, direction] of DIRECTIONS.entries()) {
      const candidate = at(label, direction, distance);
      if (!inside(candidate.box, scene.frame) || scene.taken.some((box) => overlaps(box, candidate.box))) continue;
      const covered = near.filter(([x, y]) => x > candidate.box.x0 && x < candidate.box.x1 && y > candidate.box.y0 && y < candidate.box.y1).length;
      const mistaken = others.some((mark) => gap(candidate.box, mark.at) - mark.radius < MARGIN_PX + Math.min(distance, 6) + 4);
      const cost = preference * 0.5 + distance * 0.6 + covered * 1.5 + (mistaken ? 30 : 0);
      if (cost >= least) continue;
      least = cost;
      best = candidate;
    }
  }
  return best;
}

/** How far a point lies outside a box. */
function gap(box: Box, [x, y]: Point): number {
  return Math.hypot(Math.max(box.x0 - x, 0, x - box.x1), Math.max(box.y0 - y, 0, y - box.y1));
}

function at(label: Wanted, direction: number, distance: number): { box: Box; placed: Placed } {
  const turn = (direction * Math.PI) / 180;
  const reach = label.radius + MARGIN_PX + distance;
  const [dx, dy] = [Math.cos(turn), Math.sin(turn)];
  const width = textWidth(label.text, label.fontSize);
  const height = label.fontSize * 1.25;
  const edge: Point = [label.at[0] + dx * reach, label.at[1] + dy * reach];
  const anchor = dx > 0.3 ? "start" : dx < -0.3 ? "end" : "middle";
  const x0 = anchor === "start" ? edge[0] : anchor === "end" ? edge[0] - width : edge[0] - width / 2;
  const y0 = edge[1] + (dy > 0.3 ? 0 : dy < -0.3 ? -height : -height / 2);
  const from: Point = [label.at[0] + dx * (label.radius + 1), label.at[1] + dy * (label.radius + 1)];
  return {
    box: { x0: x0 - 2, y0, x1: x0 + width + 2, y1: y0 + height },
    placed: {
      id: label.id,
      text: label.text,
      x: edge[0],
      y: y0 + height * 0.78,
      anchor,
      fontSize: label.fontSize,
      leader: distance > 0 ? [from, [edge[0] - dx * 2, edge[1] - dy * 2]] : null,
    },
  };
}

export function overlaps(a: Box, b: Box): boolean {
  return a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
}

function inside(box: Box, frame: Box): boolean {
  return box.x0 >= frame.x0 && box.x1 <= frame.x1 && box.y0 >= frame.y0 && box.y1 <= frame.y1;
}
