import { useParams } from "@tanstack/react-router";
import { useIsOwner } from "../api/members.ts";
import { Page } from "../parts/page.tsx";
import { SecretsCard } from "./secrets/secrets-card.tsx";
import { Address } from "./settings/address.tsx";
import { Invitations } from "./settings/invitations.tsx";
import { Isolation } from "./settings/isolation.tsx";
import { Members } from "./settings/members.tsx";
import { Password } from "./settings/password.tsx";
import { Projects } from "./settings/projects.tsx";
import { Sessions } from "./settings/sessions.tsx";

/** Who belongs to the project and who is invited, the secrets of all its apps, the person's projects and account. */
export function Settings() {
  const { projectId } = useParams({ from: "/gate/projects/$projectId" });
  const isOwner = useIsOwner(projectId) ?? false;
  return (
    <Page title="Settings" subtitle="The project's members and secrets, your projects and your account.">
      <Members projectId={projectId} />
      {isOwner && <Invitations projectId={projectId} />}
      <SecretsCard holder={{ projectId, appName: null }} />
      <Projects projectId={projectId} />
      <div className="grid gap-4 lg:grid-cols-2">
        <Address />
        <Password />
      </div>
      <Sessions />
      <Isolation />
    </Page>
  );
}
