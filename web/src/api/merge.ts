// How an event changes what has been read. Pure: lists in, lists out.
import type { Link, Order, Received } from "./types";

export function stamp<T extends object>(items: readonly T[], now: number = Date.now()): Received<T>[] {
  return items.map((item) => ({ ...item, received_at: now }));
}

/** Changed items laid over a list; unknown ones come last. An item keeps what the change does not name. */
export function mergeBy<T extends object>(list: readonly T[], changes: readonly T[], key: (item: T) => string): T[] {
  const pending = new Map(changes.map((change) => [key(change), change]));
  const merged = list.map((item) => {
    const change = pending.get(key(item));
    pending.delete(key(item));
    return change ? { ...item, ...change } : item;
  });
  return [...merged, ...pending.values()];
}

export interface OrderPages {
  pages: { items: Received<Order>[]; next: string | null }[];
  pageParams: unknown[];
}

/** A changed order in a filtered list: replaced, taken out when it no longer fits the filter, or put first when new. */
export function mergeOrder(data: OrderPages, change: Received<Order>, filter: string): OrderPages {
  const fits = filter === "" || change.state === filter;
  const pages = data.pages.map((page) => {
    const at = page.items.findIndex((order) => order.id === change.id);
    if (at < 0) return page;
    const items = fits ? page.items.with(at, { ...(page.items[at] as Received<Order>), ...change }) : page.items.toSpliced(at, 1);
    return { ...page, items };
  });
  const found = data.pages.some((page) => page.items.some((order) => order.id === change.id));
  const [first, ...rest] = pages;
  if (found || !fits || !first) return { ...data, pages };
  return { ...data, pages: [{ ...first, items: [change, ...first.items] }, ...rest] };
}

interface Placed {
  /** Decimals too long for a number come as text. */
  place?: { lat: number | string; lon: number | string } | null;
  lat_micro?: number | null;
  lon_micro?: number | null;
}

/** With its place as numbers, from millionths of a degree where those are given: they are exact. */
export function placed<T extends object>(item: T & Placed): T {
  const { lat_micro, lon_micro } = item;
  if (typeof lat_micro === "number" && typeof lon_micro === "number") return { ...item, place: { lat: lat_micro / 1e6, lon: lon_micro / 1e6 } };
  return item.place ? { ...item, place: { lat: Number(item.place.lat), lon: Number(item.place.lon) } } : item;
}

/** A link that nothing measures has no figure that could go stale. */
export function judged<T extends Link>(link: T): T {
  return link.estimated && link.stale ? { ...link, stale: false } : link;
}
