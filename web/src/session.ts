// The bearer token lives in sessionStorage: it ends with the tab and is never in a URL that is kept or sent.
import { useSyncExternalStore } from "react";

const KEY = "rhumb.token";

export type SignOutCause = "none" | "rejected";

interface Session {
  token: string | null;
  cause: SignOutCause;
}

/** The token in a fragment like `#token=abc` or `#/orders?token=abc`, and the fragment without it. */
export function tokenFromFragment(fragment: string): { token: string; rest: string } | null {
  const match = /(^#|[?&])token=([^&]+)(&|$)/.exec(fragment);
  if (!match?.[2]) return null;
  const [found, lead = "", value, tail = ""] = match;
  const rest = fragment.replace(found, tail === "&" ? lead : lead === "#" ? "#" : "");
  return { token: decodeURIComponent(value), rest: rest === "#" ? "#/" : rest };
}

function takeFromAddressBar(): string | null {
  const taken = tokenFromFragment(location.hash);
  if (!taken) return null;
  history.replaceState(null, "", taken.rest);
  return taken.token;
}

let session: Session = { token: null, cause: "none" };
const listeners = new Set<() => void>();

function set(next: Session): void {
  session = next;
  if (next.token === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, next.token);
  listeners.forEach((listener) => listener());
}

/** Reads the address bar and what the tab kept. Called once, before the first render. */
export function startSession(): void {
  set({ token: takeFromAddressBar() ?? sessionStorage.getItem(KEY), cause: "none" });
  addEventListener("hashchange", () => {
    const token = takeFromAddressBar();
    if (token) signIn(token);
  });
}

export function signIn(token: string): void {
  set({ token, cause: "none" });
}

export function signOut(cause: SignOutCause = "none"): void {
  if (session.token !== null) set({ token: null, cause });
}

export function currentToken(): string | null {
  return session.token;
}

export function useSession(): Session {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => session,
  );
}
