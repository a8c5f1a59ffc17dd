import { section } from "./row.ts";

/** Replicas on other machines: remote seats. */
export const SEATS = {
  ...section("docs/decisions/0038-remote-seats.md", {
    "seats.same":
      "An app in a remote seat is called, streamed, run async, cancelled and logged as on one machine.",
    "seats.relay":
      "Through a seat pass calls and streams of any size, held back in both directions as on one machine.",
    "seats.variables":
      "An app in a remote seat sees its variables and secrets, and none of the service's own.",
    "seats.scale":
      "Replicas of a remote seat are forks of one template there, and come and go with the load.",
    "seats.cold":
      "When the last replica has ended, so has its seat, unless the app sets template_keep; one with a GPU is never kept.",
    "seats.packages":
      "A seat fetches bundle and environment, and fits the environment to its place and Python.",
    "seats.init-failure": "An import that fails in a remote seat is reported as on one machine.",
    "seats.single":
      "A remote template that may not fork is one replica, and each further replica has its own seat.",
    "seats.ticket":
      "The ticket of a seat is good once; without one, or with a wrong secret or blob, a connection gets no answer.",
    "seats.secret":
      "What an agent is given where it starts holds no secret of its app, nor does its command line.",
    "seats.private": "An app cannot look into its agent: not its memory, its environment nor its open files.",
    "seats.verified": "A seat uses nothing of a blob whose bytes are not those of its hash, and says why.",
    "seats.postgres": "Without Postgres there are no remote seats, and the service says so at its start.",
    "seats.port": "A service whose port for seats is taken says so and ends, and so does what it had begun.",
    "seats.killed":
      "kill -9 of an agent ends all below it, costs the calls in it, and the next call is answered.",
    "seats.cut":
      "When every connection of a seat is cut, its calls fail once, and the next call has a seat again.",
    "seats.back":
      "A seat that was out of reach for less than the grace comes back, and no call of it is lost.",
    "seats.names":
      "An agent tries every address that a name has, and looks names up while what it passes on goes on.",
    "seats.alone":
      "A seat that finds no service, or that no service takes over, ends itself and all it started after the grace.",
    "seats.session":
      "A seat's ticket buys a session secret; its hash and fence are stored before it is told.",
    "seats.order": "What an agent says out of turn, too long or otherwise wrong ends its seat.",
    "seats.python":
      "A seat with another Python than an app's packages are for is refused, and both are named.",
    "seats.at-once": "An agent calls as soon as it has started.",
    "seats.beats":
      "Service and agent exchange heartbeats every 2 s; after 6 s of silence each takes the connection for dead.",
    "seats.ends": "A seat ends once, by its place's word or its agent's, and its place is always cleaned up.",
    "seats.crowd":
      "A flood of connections from one address keeps no other agent away: 2,000 handshakes at once, then 100 a second.",
    "seats.leaving":
      "A seat that is about to end takes calls until another is ready, and finishes what it has.",
    "seats.leaving.backoff":
      "An app that has its seats end soon after each start is started ever later, as one that crashes.",
    "seats.files":
      "An agent unpacks names, rights, times and links as services pack them; other archives are refused whole.",
    "seats.hung": "A remote replica that does not answer and does nothing is ended, and another takes over.",
    "seats.memory":
      "A remote replica that the kernel ended because memory ran out is distinguished from one that was killed.",
    "seats.nodes": "Seats of several nodes work side by side, each with the addresses of all.",
    "seats.restart":
      "The next service goes on in the seats of one that died: templates stay, what they had forked ends.",
    "seats.adopted":
      "A seat whose service is gone is taken over by one service, with the next fence, if it runs just that.",
    "seats.left": "A service that stops as the last leaves its seats to the next, unless told otherwise.",
    "seats.service":
      "Seats find the next service by an address that lasts, where it has another one of its own.",
    "seats.moved": "When a node dies, the node that takes its app goes on in its seats.",
    "seats.taken": "A service that finds its seat taken over by another ends nothing of it.",
    "seats.servers": "A server app is reached in a remote seat, and its lines are logged.",
    "seats.walls":
      "On a shared machine, a remote app is isolated as on a host, and reaches only its own servers there.",
    "seats.neighbours":
      "Nodes that join a Ray cluster later are out of reach of apps that run already, within seconds.",
    "seats.walls-asked":
      "An app does not start in a seat that does not support the required level or network, and the error says why.",
    "seats.walls-told": "The isolation of remote apps is reported as the weakest of all seats.",
    "seats.limits.memory":
      "On a machine of others, a replica that uses more memory than its app names ends as on a host; no other does.",
    "seats.questions": "A seat is asked about its program only while it has one.",
    "seats.limits.disk":
      "On a machine of others, an app whose temporary files or storage take too much is ended, and says why.",
    "seats.ports":
      "On a machine of others, each server has a port of its own, and only its own sockets are taken for it.",
    "seats.pythons": "An agent runs on every Python from 3.9 on, with its standard library alone.",
    "seats.named-python":
      "In a seat, a shell of an app without packages finds the interpreter of the seat as python and python3.",
    "seats.fenced": "A seat that was given up ends when it comes back; what it answers is not heard.",
  }),
};
