import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "./answer.ts";

/** What was fetched, by its key; asked again when a page comes back into view. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      // What is wrong stays wrong; a service that restarts comes back.
      retry: (count, error) => count < 3 && !(error instanceof ApiError && error.status < 500),
      retryDelay: (count) => Math.min(1_000 * 2 ** count, 8_000),
    },
  },
});
