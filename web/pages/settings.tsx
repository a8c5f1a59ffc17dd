import { useParams } from "@tanstack/react-router";
import { Page } from "../parts/page.tsx";
import { SecretsCard } from "./secrets/secrets-card.tsx";
import { Members } from "./settings/members.tsx";
import { Password } from "./settings/password.tsx";
import { Projects } from "./settings/projects.tsx";
import { Sessions } from "./settings/sessions.tsx";

/** Who belongs to the project, the secrets of all its apps, the person's projects, and their own account. */
export function Settings() {
  const { projectId } = useParams({ from: "/gate/projects/$projectId" });
  return (
    <Page title="Settings" subtitle="The project's members and secrets, your projects and your account.">
      <Members projectId={projectId} />
      <SecretsCard holder={{ projectId, appName: null }} />
      <Projects projectId={projectId} />
      <div className="grid items-start gap-4 xl:grid-cols-[24rem_minmax(0,1fr)]">
        <Password />
        <Sessions />
      </div>
    </Page>
  );
}
