// Routing in the fragment (`#/orders/ID?state=pending`), so that any static file server can serve the console.
import { useSyncExternalStore } from "react";

export interface Location {
  /** Decoded segments: `#/links/a~` is ["links", "a~"]. */
  path: string[];
  query: URLSearchParams;
}

export function parseFragment(fragment: string): Location {
  const [path = "", query = ""] = fragment.replace(/^#/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** The address of a page, with every segment encoded. */
export function href(path: readonly string[], query: Record<string, string> = {}): string {
  const text = new URLSearchParams(query).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function navigate(to: string, how: "push" | "replace" = "push"): void {
  if (how === "push") location.hash = to;
  else {
    history.replaceState(null, "", to);
    dispatchEvent(new HashChangeEvent("hashchange"));
  }
}

let cached = { fragment: "\0", value: parseFragment("") };

function snapshot(): Location {
  if (cached.fragment !== location.hash) cached = { fragment: location.hash, value: parseFragment(location.hash) };
  return cached.value;
}

export function useLocation(): Location {
  return useSyncExternalStore((listener) => {
    addEventListener("hashchange", listener);
    return () => removeEventListener("hashchange", listener);
  }, snapshot);
}
