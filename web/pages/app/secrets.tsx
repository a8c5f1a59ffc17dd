import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { secretsQuery } from "../../api/secrets.ts";
import { Card } from "../../parts/card.tsx";
import { SecretsCard } from "../secrets/secrets-card.tsx";

/** What an app gets as environment variables and nobody else is to know. */
export function AppSecrets() {
  const { projectId, appName } = useParams({ from: "/gate/projects/$projectId/apps/$appName" });
  const holder = { projectId, appName };
  const { data: secrets = {} } = useQuery(secretsQuery(holder));
  const { data: shared = {} } = useQuery(secretsQuery({ projectId, appName: null }));
  const inherited = Object.keys(shared).filter((name) => !Object.hasOwn(secrets, name));
  return (
    <div className="flex flex-col gap-4">
      <SecretsCard holder={holder} shared={shared} />
      {inherited.length > 0 && (
        <Card title="From the project">
          <p className="mb-3 text-ink-soft">
            Every app of the project gets these too. A secret with the same name above replaces it in this
            app. Change them in the{" "}
            <Link to="/projects/$projectId/settings" params={{ projectId }} className="text-accent underline">
              project’s settings
            </Link>
            .
          </p>
          <ul className="flex flex-wrap gap-2">
            {inherited.toSorted().map((name) => (
              <li
                key={name}
                className="max-w-full truncate rounded bg-sunken px-2 py-1 font-mono text-[0.9rem]"
              >
                {name}
              </li>
            ))}
          </ul>
        </Card>
      )}
    </div>
  );
}
