// What the pages ask for. Answers are given the thin shapes of types.ts here and nowhere else.
import { QueryClient, useInfiniteQuery, useQuery, useQueryClient, type UseQueryResult } from "@tanstack/react-query";

import { read, Refused, type ReadPath } from "./client";
import { addChunks, type Logs, NO_LOGS } from "./logs";
import { judged, placed, stamp } from "./merge";
import type {
  Dataset,
  Explanation,
  FourMetrics,
  Link,
  LinkWindow,
  LogChunk,
  Order,
  OrderEvent,
  Received,
  Region,
  Route,
  Site,
  Transit,
  Usage,
} from "./types";

export const PAGE = 100;
/** Enough for 20,000 items; a list longer than that is a server's mistake, not a page. */
const MAX_PAGES = 200;

export interface Page<T> {
  items: T[];
  next?: string | null;
}

export function makeQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        // The console also runs where the browser believes to be offline: on loopback.
        networkMode: "always",
        staleTime: 10_000,
        retry: (failures, error) => !(error instanceof Refused) && failures < 2,
        retryDelay: (attempt) => 400 * 2 ** attempt,
      },
      mutations: { networkMode: "always" },
    },
  });
}

interface ReadAll {
  path?: Record<string, string>;
  /** The parameter that takes the `next` of the page before. */
  cursor?: "cursor" | "after";
}

async function readAll<T>(path: ReadPath, { path: names, cursor: name = "cursor" }: ReadAll, signal: AbortSignal): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | null | undefined;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const answer = (await read(path, { ...(names ? { path: names } : {}), ...(cursor ? { query: { [name]: cursor } } : {}) }, signal)) as Page<T> | T[];
    if (Array.isArray(answer)) return answer;
    items.push(...answer.items);
    cursor = answer.next;
    if (!cursor) break;
  }
  return items;
}

/** Live lists are also read again now and then, in case an event was lost. */
const SLOW_MS = 30_000;
const QUICK_MS = 10_000;

export function useSites(): UseQueryResult<Received<Site>[]> {
  return useQuery({
    queryKey: ["sites"],
    queryFn: async ({ signal }) => stamp((await readAll<Site>("/v1/sites", {}, signal)).map(placed)),
    refetchInterval: SLOW_MS,
  });
}

export function useSite(name: string): UseQueryResult<Received<Site>> {
  return useQuery({
    queryKey: ["site", name],
    queryFn: async ({ signal }) => stamp([placed((await read("/v1/sites/{name}", { path: { name } }, signal)) as Site)])[0] as Received<Site>,
    refetchInterval: QUICK_MS,
  });
}

export function useTransit(): UseQueryResult<Received<Transit>[]> {
  return useQuery({
    queryKey: ["transit"],
    queryFn: async ({ signal }) => stamp((await readAll<Transit>("/v1/transit", {}, signal)).map(placed)),
    refetchInterval: SLOW_MS,
  });
}

export function useLinks(): UseQueryResult<Received<Link>[]> {
  return useQuery({
    queryKey: ["links"],
    queryFn: async ({ signal }) => stamp((await readAll<Link>("/v1/links", {}, signal)).map(judged)),
    refetchInterval: SLOW_MS,
  });
}

export function useLink(id: string): UseQueryResult<Received<Link>> {
  return useQuery({
    queryKey: ["link", id],
    queryFn: async ({ signal }) => stamp([judged((await read("/v1/links/{id}", { path: { id } }, signal)) as Link)])[0] as Received<Link>,
    refetchInterval: SLOW_MS,
  });
}

/** What probes said of a link in the last hours, in at most some hundred windows. */
export function useLinkHistory(id: string, hours: number): UseQueryResult<LinkWindow[]> {
  return useQuery({
    queryKey: ["link-history", id, hours],
    queryFn: async ({ signal }) => {
      const from = new Date(Date.now() - hours * 3_600_000).toISOString();
      return ((await read("/v1/links/{id}/history", { path: { id }, query: { from, points: 300 } }, signal)) as { items: LinkWindow[] }).items;
    },
    refetchInterval: SLOW_MS,
  });
}

export function useRoutes(): UseQueryResult<Route[]> {
  return useQuery({
    queryKey: ["routes"],
    queryFn: ({ signal }) => readAll<Route>("/v1/routes", {}, signal),
    refetchInterval: QUICK_MS,
  });
}

export function useRegions(): UseQueryResult<Region[]> {
  return useQuery({ queryKey: ["regions"], queryFn: ({ signal }) => readAll<Region>("/v1/regions", {}, signal), staleTime: 60_000 });
}

export function useDatasets(): UseQueryResult<Dataset[]> {
  return useQuery({ queryKey: ["datasets"], queryFn: ({ signal }) => readAll<Dataset>("/v1/datasets", {}, signal), staleTime: 60_000 });
}

export function useFourMetrics(): UseQueryResult<FourMetrics> {
  return useQuery({
    queryKey: ["metrics"],
    queryFn: async ({ signal }) => (await read("/v1/metrics/four", {}, signal)) as FourMetrics,
    refetchInterval: QUICK_MS,
  });
}

export function useOrders(state: string) {
  return useInfiniteQuery({
    queryKey: ["orders", state],
    initialPageParam: "",
    queryFn: async ({ signal, pageParam }) => {
      const query = { limit: PAGE, ...(state ? { state } : {}), ...(pageParam ? { cursor: pageParam } : {}) };
      const answer = (await read("/v1/orders", { query }, signal)) as Page<Order>;
      return { next: answer.next ?? null, items: stamp(answer.items) };
    },
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: SLOW_MS,
  });
}

export function useOrder(id: string): UseQueryResult<Received<Order>> {
  return useQuery({
    queryKey: ["order", id],
    queryFn: async ({ signal }) => stamp([(await read("/v1/orders/{id}", { path: { id } }, signal)) as Order])[0] as Received<Order>,
    refetchInterval: QUICK_MS,
  });
}

export function useExplanation(id: string): UseQueryResult<Explanation> {
  return useQuery({
    queryKey: ["order", id, "explain"],
    queryFn: async ({ signal }) => (await read("/v1/orders/{id}/explain", { path: { id } }, signal)) as Explanation,
  });
}

export function useOrderEvents(id: string): UseQueryResult<OrderEvent[]> {
  return useQuery({
    queryKey: ["order", id, "events"],
    queryFn: ({ signal }) => readAll<OrderEvent>("/v1/orders/{id}/events", { path: { id }, cursor: "after" }, signal),
    refetchInterval: QUICK_MS,
  });
}

export function useUsage(id: string): UseQueryResult<Usage> {
  return useQuery({
    queryKey: ["order", id, "usage"],
    queryFn: async ({ signal }) => {
      const answer = (await read("/v1/orders/{id}/usage", { path: { id } }, signal)) as Usage | Usage["items"];
      return Array.isArray(answer) ? { items: answer } : answer;
    },
    refetchInterval: QUICK_MS,
  });
}

/** Much output is read in several steps; beyond this many the rest comes with the next round. */
const MAX_LOG_READS = 16;

export function useLogs(id: string, wanted: boolean): UseQueryResult<Logs> {
  const client = useQueryClient();
  const queryKey = ["order", id, "logs"];
  return useQuery({
    queryKey,
    queryFn: async ({ signal }) => {
      let logs = client.getQueryData<Logs>(queryKey) ?? NO_LOGS;
      for (let round = 0; round < MAX_LOG_READS; round += 1) {
        const { items, next } = (await read("/v1/orders/{id}/logs", { path: { id }, query: { after: logs.after } }, signal)) as Page<LogChunk>;
        logs = addChunks(logs, items, next ?? null);
        if (items.length === 0 || !next) break;
      }
      return logs;
    },
    enabled: wanted,
    refetchInterval: 2_000,
  });
}
