import type { Device } from "../api/types";
import { islands } from "./islands";

/** Measures of the drawing, in its own units. */
export const DEVICE = { width: 44, height: 40 } as const;
/** Room above the devices: for NUMA nodes and PCIe switches, or for nothing. */
const TOP = { levels: 46, none: 6 } as const;
const GAPS = { device: 6, pcie: 16, numa: 34 } as const;
const MARGIN = 14;
const BAR_GAP = 16;
const BAR_STEP = 26;

export interface Seat {
  device: Device;
  x: number;
}

/** Devices that share something, from the left edge of the first to the right edge of the last. */
export interface Span {
  number: number;
  from: number;
  to: number;
  /** Middles of its devices. */
  stubs: number[];
}

export interface Layout {
  seats: Seat[];
  numas: Span[];
  switches: Span[];
  /** NVLink islands with the height at which each is drawn. */
  bars: (Span & { y: number })[];
  /** Where the devices begin. */
  top: number;
  width: number;
  height: number;
}

const last = (value: number | null | undefined): number => value ?? Number.MAX_SAFE_INTEGER;

/** Puts the devices of a node side by side: those of one NUMA node together, within it those below one PCIe switch. */
export function layout(devices: readonly Device[]): Layout {
  const sorted = [...devices].sort((a, b) => last(a.numa) - last(b.numa) || last(a.pcie) - last(b.pcie) || a.index - b.index);
  const seats: Seat[] = [];
  let x = MARGIN;
  sorted.forEach((device, at) => {
    const before = sorted[at - 1];
    if (before) {
      const gap = last(before.numa) !== last(device.numa) ? GAPS.numa : last(before.pcie) !== last(device.pcie) ? GAPS.pcie : GAPS.device;
      x += DEVICE.width + gap;
    }
    seats.push({ device, x });
  });
  const bars = placed(islands(devices).flatMap((island) => (island.index === null ? [] : [span(island.index, seats, (device) => device.island === island.index)])));
  const numas = spans(seats, (device) => device.numa);
  const switches = spans(seats, (device) => device.pcie);
  const top = numas.length + switches.length > 0 ? TOP.levels : TOP.none;
  const bottom = top + DEVICE.height;
  const lowest = Math.max(0, ...bars.map((bar) => bar.row));
  return {
    seats,
    numas,
    switches,
    bars: bars.map(({ row, ...bar }) => ({ ...bar, y: bottom + BAR_GAP + row * BAR_STEP })),
    top,
    width: x + (seats.length > 0 ? DEVICE.width : 0) + MARGIN,
    height: bottom + (bars.length > 0 ? 32 + lowest * BAR_STEP : 14),
  };
}

function span(number: number, seats: readonly Seat[], holds: (device: Device) => boolean): Span {
  const here = seats.filter((seat) => holds(seat.device));
  const xs = here.map((seat) => seat.x);
  return { number, from: Math.min(...xs), to: Math.max(...xs) + DEVICE.width, stubs: xs.map((x) => x + DEVICE.width / 2) };
}

function spans(seats: readonly Seat[], of: (device: Device) => number | null | undefined): Span[] {
  const numbers = new Set(seats.flatMap((seat) => of(seat.device) ?? []));
  return [...numbers].map((number) => span(number, seats, (device) => of(device) === number)).sort((a, b) => a.from - b.from);
}

/** Bars that would lie over each other get rows of their own. */
function placed(bars: readonly Span[]): (Span & { row: number })[] {
  const rows: number[] = [];
  return [...bars]
    .sort((a, b) => a.from - b.from)
    .map((bar) => {
      const free = rows.findIndex((end) => end < bar.from);
      const row = free < 0 ? rows.length : free;
      rows[row] = bar.to;
      return { ...bar, row };
    });
}

/** Widths of a device's slices by their memory, and what is not cut. */
export function cuts(device: Device): { from: number; width: number; slice: NonNullable<Device["slices"]>[number] | null }[] {
  const slices = device.slices ?? [];
  const all = Math.max(device.memory_bytes, slices.reduce((sum, slice) => sum + slice.memory_bytes, 0), 1);
  let from = 0;
  const parts: ReturnType<typeof cuts> = slices.map((slice) => {
    const part = { from, width: (slice.memory_bytes / all) * DEVICE.width, slice };
    from += part.width;
    return part;
  });
  if (DEVICE.width - from > 1) parts.push({ from, width: DEVICE.width - from, slice: null });
  return parts;
}
