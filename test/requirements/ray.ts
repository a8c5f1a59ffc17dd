import { section } from "./row.ts";

/** Replicas in actors of a Ray cluster. */
export const RAY = {
  ...section("docs/ray.md: How it works", {
    "ray.same": "An app on Ray is called, streamed, run async, cancelled and logged as on one machine.",
    "ray.scale":
      "On Ray, replicas come and go with the load, each seat in an actor of its own; how long that takes is measured.",
    "ray.gpus":
      "An actor of an app with GPUs goes to a node with one of its models, as far as Ray knows them.",
    "ray.left": "After an orderly stop no actor and no supervisor of a service is left on Ray.",
    "ray.orphan":
      "Without any service, actors and supervisor look for another one for 30 s, and end by themselves.",
    "ray.secrets": "Neither Ray's list of jobs nor that of actors shows a secret, a ticket or a token.",
    "ray.room": "An app that no node of the cluster has room for is told so, with what it asked for.",
    "ray.supervisor":
      "When the supervisor is killed or its job ends, calls go on; another one finds the actors and starts more.",
    "ray.actor": "When an agent or its actor is killed, all below it ends, and the next call is answered.",
    "ray.killed": "Nothing is left on its node of an agent on Ray that was killed.",
    "ray.away": "While Ray's API cannot be reached, what runs there is called; then more starts again.",
    "ray.adopted": "After kill -9 of the service the next one goes on in the same actors.",
    "ray.node": "When a node of Ray dies, the next call is answered by another node.",
    "ray.walls": "An app on Ray reaches neither Ray's ports, sockets, files nor token, nor another app's.",
    "ray.limits":
      "On Ray, an app that takes too much memory or disk is 502 with the reason; its neighbour and the node live on.",
    "ray.load":
      "A node of Ray that dies under load costs no accepted run; sync calls fail only if they were in it.",
    "ray.deploys": "20 deploys under load on Ray fail no call.",
    "ray.servers": "An app that is a server runs on Ray, on a port of its own.",
    "ray.proof": "Only the job that a service has submitted is taken for its supervisor.",
    "ray.messages": "A supervisor that says what none says, or not in its turn, is not listened to.",
    "ray.api": "Answers of Ray's API are bounded, and a refusal is told in plain words.",
    "ray.old": "A cluster with a Ray or Python that is too old is refused, with the version it needs.",
    "ray.package":
      "The code that Ray gets is packed the same way each time, and holds no app and no setting.",
    "ray.doctor": "`millrace doctor` says whether Ray can be reached, and takes our token.",
  }),
};
