import type { UseQueryResult } from "@tanstack/react-query";
import { Component, type ReactNode } from "react";

import { Refused, Unreachable } from "../api/client";
import { type Key, useI18n } from "../i18n";

interface Props<T> {
  query: Pick<UseQueryResult<T>, "data" | "error" | "isError" | "isFetching" | "dataUpdatedAt" | "refetch">;
  children: (data: T) => ReactNode;
}

/** What a query came to: its data, even where a later read failed; else the failure; else that it is being read. */
export function Answer<T>({ query, children }: Props<T>): ReactNode {
  const { t, format } = useI18n();
  if (query.data !== undefined) {
    const known = format.time(new Date(query.dataUpdatedAt).toISOString());
    return (
      <>
        {query.isError && (
          <p className="banner is-warn" role="status">
            {t(failureTitle(query.error))}. {t("error.known", { time: known })}.
          </p>
        )}
        {children(query.data)}
      </>
    );
  }
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} busy={query.isFetching} />;
  return <Loading />;
}

function failureTitle(error: unknown): Key {
  if (error instanceof Unreachable) return "error.unreachable";
  if (error instanceof Refused && error.status === 404) return "error.notfound";
  if (error instanceof Refused && error.status === 403) return "error.forbidden";
  return "error.title";
}

export function Failure({ error, onRetry, busy = false }: { error: unknown; onRetry?: () => void; busy?: boolean }): ReactNode {
  const { t } = useI18n();
  const title = failureTitle(error);
  const hint = error instanceof Unreachable ? t("error.unreachable.hint") : title === "error.notfound" ? t("error.notfound.hint") : messageOf(error);
  return (
    <div className="state-block is-bad" role="alert">
      <h2>{t(title)}</h2>
      {hint && <p>{hint}</p>}
      {onRetry && (
        <button type="button" className="button" onClick={onRetry} disabled={busy}>
          {t("error.retry")}
        </button>
      )}
    </div>
  );
}

export function messageOf(error: unknown): string {
  if (error instanceof Refused) return [error.problem.title, error.problem.detail].filter(Boolean).join(": ") || error.message;
  return error instanceof Error ? error.message : String(error);
}

export function Loading(): ReactNode {
  const { t } = useI18n();
  return (
    <div className="loading" role="status">
      <svg width="22" height="22" viewBox="0 0 22 22" aria-hidden="true">
        <circle cx="11" cy="11" r="9" fill="none" stroke="currentColor" strokeWidth="1.2" opacity="0.35" />
        <path d="M11 2.5L12.6 11 11 12.6 9.4 11Z" fill="currentColor" />
      </svg>
      {t("loading")}
    </div>
  );
}

export function Empty({ title, hint, children }: { title: string; hint?: string; children?: ReactNode }): ReactNode {
  return (
    <div className="state-block">
      <h2>{title}</h2>
      {hint && <p>{hint}</p>}
      {children}
    </div>
  );
}

interface BoundaryProps {
  children: ReactNode;
  fallback: (error: Error) => ReactNode;
}

/** Keeps a fault of one page from taking the whole console down. */
export class Boundary extends Component<BoundaryProps, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  override render(): ReactNode {
    return this.state.error ? this.props.fallback(this.state.error) : this.props.children;
  }
}
