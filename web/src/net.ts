// Asking the server. Every refusal becomes an error with the server's own sentence.

export class Refused extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      credentials: "same-origin",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refused(0, "The server does not answer.");
  }
  const answer: unknown = await response.json().catch(() => null);
  if (!response.ok) {
    const error = (answer as { error?: string } | null)?.error;
    throw new Refused(response.status, error ?? `The server answered ${response.status}.`);
  }
  return answer as T;
}

export const get = <T>(path: string): Promise<T> => ask<T>("GET", path);
export const post = <T>(path: string, body: unknown = {}): Promise<T> => ask<T>("POST", path, body);
export const put = <T>(path: string, body: unknown): Promise<T> => ask<T>("PUT", path, body);
export const remove = <T>(path: string): Promise<T> => ask<T>("DELETE", path);

/** The address of something of a run; what is undefined, null or '' is left out of the query. */
export function at(run: string, noun = "", query: Record<string, string | number | null | undefined> = {}): string {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== null && value !== "") parts.set(name, String(value));
  const text = parts.toString();
  return `/api/runs/${encodeURIComponent(run)}${noun ? `/${noun}` : ""}${text ? `?${text}` : ""}`;
}
