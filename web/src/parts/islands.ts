import type { Device } from "../api/types";

export interface Island {
  /** Null gathers the devices without NVLink. */
  index: number | null;
  devices: Device[];
}

/** Devices by NVLink island, in order of their index; those without NVLink come last. */
export function islands(devices: readonly Device[]): Island[] {
  const groups = new Map<number | null, Device[]>();
  for (const device of [...devices].sort((a, b) => a.index - b.index)) {
    const index = device.island ?? null;
    groups.set(index, [...(groups.get(index) ?? []), device]);
  }
  return [...groups].map(([index, members]) => ({ index, devices: members })).sort((a, b) => (a.index ?? Infinity) - (b.index ?? Infinity));
}

/** `ok`, `healthy` and no word at all mean well. */
export function isSick(device: Device): boolean {
  return device.health !== null && device.health !== undefined && !["", "ok", "good", "healthy"].includes(device.health.toLowerCase());
}

/** The order to open from a device: none where it is another tenant's, or only quoted. */
export function orderOf(device: Device): string | null {
  return device.order && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(device.order) ? device.order : null;
}

const HUES = 6;

/** A stable one of a few colours for an order, so that its devices are seen as one. */
export function hueOf(order: string): number {
  let sum = 0;
  for (const character of order) sum = (sum * 31 + (character.codePointAt(0) ?? 0)) >>> 0;
  return sum % HUES;
}
