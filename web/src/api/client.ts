// The typed client. Paths are checked against openapi.json when the console is built; answers are given the thin
// shapes of types.ts by the callers in queries.ts, which is the only place that does so.
import createClient from "openapi-fetch";
import type { PathsWithMethod } from "openapi-typescript-helpers";

import { currentToken, signOut } from "../session";
import type { paths } from "./schema";
import type { Problem } from "./types";

export type ReadPath = PathsWithMethod<paths, "get">;

export interface Parameters {
  path?: Record<string, string>;
  query?: Record<string, string | number>;
  header?: Record<string, string>;
}

/** No answer came back: the server is down, or the network is. */
export class Unreachable extends Error {
  override name = "Unreachable";
}

/** The server answered with an error, if possible as problem details. */
export class Refused extends Error {
  override name = "Refused";
  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.detail ?? problem.title ?? `HTTP ${status}`);
  }
}

const client = createClient<paths>({ baseUrl: location.origin, fetch: (request) => globalThis.fetch(request) });

client.use({
  onRequest({ request }) {
    const token = currentToken();
    if (token && !request.headers.has("Authorization")) request.headers.set("Authorization", `Bearer ${token}`);
    return request;
  },
});

interface Answer {
  data?: unknown;
  error?: unknown;
  response: Response;
}

/** The methods with their parameters loosened; the path has been checked by the caller's type. */
type Loose = Record<"GET" | "POST" | "DELETE", (path: string, init: object) => Promise<Answer>>;
const loose = client as unknown as Loose;

interface Call {
  method: keyof Loose;
  path: string;
  init: object;
  /** `keep`: a refused token is the caller's matter. `end` (default): it ends the session. */
  onRefusedToken?: "keep" | "end";
}

async function call({ method, path, init, onRefusedToken = "end" }: Call): Promise<{ data: unknown; response: Response }> {
  let answer: Answer;
  try {
    answer = await loose[method](path, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Unreachable(error instanceof Error ? error.message : String(error));
  }
  const { data, error, response } = answer;
  if (response.ok) return { data, response };
  if (response.status === 401 && onRefusedToken === "end") signOut("rejected");
  throw new Refused(response.status, toProblem(error, response));
}

function toProblem(body: unknown, response: Response): Problem {
  if (typeof body === "object" && body !== null) return body;
  return { title: response.statusText || `HTTP ${response.status}`, ...(typeof body === "string" && body ? { detail: body } : {}) };
}

export async function read(path: ReadPath, params: Parameters = {}, signal?: AbortSignal): Promise<unknown> {
  return (await call({ method: "GET", path, init: { params, signal } })).data;
}

/** Asks with a token that is not in use yet; a refusal does not end the session. */
export async function tryToken(token: string): Promise<void> {
  const path: ReadPath = "/v1/sites";
  const init = { headers: { Authorization: `Bearer ${token}` } };
  await call({ method: "GET", path, init, onRefusedToken: "keep" });
}

/** One key for one press of a button: a repeat after a lost answer gets the first answer again. */
export function idempotencyKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export async function post(path: PathsWithMethod<paths, "post">, body: unknown, key: string): Promise<unknown> {
  return (await call({ method: "POST", path, init: { params: { header: { "Idempotency-Key": key } }, body } })).data;
}

const MAX_CANCEL_TRIES = 4;

/** Cancels against the state just read; a state that moved meanwhile is read again. */
export async function cancelOrder(id: string): Promise<void> {
  const path = "/v1/orders/{id}" satisfies ReadPath & PathsWithMethod<paths, "delete">;
  for (let tries = 1; ; tries += 1) {
    const { response } = await call({ method: "GET", path, init: { params: { path: { id } } } });
    const tag = response.headers.get("ETag");
    try {
      await call({ method: "DELETE", path, init: { params: { path: { id }, header: tag ? { "If-Match": tag } : {} } } });
      return;
    } catch (error) {
      if (!(error instanceof Refused && error.status === 412) || tries === MAX_CANCEL_TRIES) throw error;
    }
  }
}

/** Gives back what a quote holds; it would end by itself, so that a failure is no matter. */
export async function releaseQuote(id: string): Promise<void> {
  const path = "/v1/quotes/{id}" satisfies PathsWithMethod<paths, "delete">;
  await call({ method: "DELETE", path, init: { params: { path: { id } }, keepalive: true } }).catch(() => undefined);
}
