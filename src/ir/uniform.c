/* ir/uniform.c: how far values and flow are the same across invocations, and whether barriers and
 * what else has to be met together stands where it is.
 *
 * A graph: a node for each value, for the flow inside each block and for each memory of the
 * invocation (what a variable was ever set to, in whatever flow). An edge leads from what decides
 * to what is decided; levels are pushed along edges until nothing changes. A node rises at most
 * twice, so the work is linear in the kernel's size; who raised it last is kept and gives the path
 * that an error names. Flow after a block is that before it; in a loop it also depends on where its
 * breaks stand. */
#include "ir/ir.h"

#include <stdio.h>

typedef struct graph {
    const um_kernel *k;
    uint32_t count;         /* nodes: a value each, a block each, a memory each */
    uint8_t *level;         /* um_kuniform, of a node */
    uint32_t *cause;        /* the node that raised it; itself: a source */
    uint32_t *first, *edge; /* a node's edges: edge[first[n]] to edge[first[n + 1] - 1] */
    uint32_t *block;        /* of each instruction: the opener of the block it stands in; 0: none */
    uint32_t *queue;        /* of nodes that rose; each enters twice at most */
    bool fill;              /* edges are laid; before they are counted */
    um_arena room;          /* of all these */
} graph;

static uint32_t flow_node(const graph *g, uint32_t opener)
{
    return (uint32_t)g->k->inst_count + opener;
}

static uint32_t memory_node(const graph *g, uint64_t mem)
{
    return 2 * (uint32_t)g->k->inst_count + (uint32_t)mem - 1;
}

/* ---- edges ---------------------------------------------------------------------------------- */

/* Counted at first[from + 2]; after the sums first[from + 1] is where the next is laid. */
static void add_edge(graph *g, uint32_t from, uint32_t to)
{
    if (g->fill)
        g->edge[g->first[from + 1]++] = to;
    else
        g->first[from + 2]++;
}

/* Memory of the invocation is what was put there. */
static bool is_own(const um_kernel *k, uint64_t mem)
{
    return k->mem[mem - 1].space == UM_SPACE_PRIVATE || k->mem[mem - 1].space == UM_SPACE_VAR;
}

static void add_memory_edges(graph *g, const um_kinst *inst, uint32_t i)
{
    if (um_kop_imm(inst->op) != UM_KIMM_MEMORY || !is_own(g->k, inst->imm)) return;
    uint32_t node = memory_node(g, inst->imm);
    if (um_kop_rows[inst->op].rule == UM_KRULE_NONE) {
        for (int32_t a = 0; a < um_kinst_arity(inst); a++) add_edge(g, inst->arg[a], node);
        add_edge(g, flow_node(g, g->block[i]), node);
    } else {
        add_edge(g, node, i);
    }
}

/* What decides the flow in the block that instruction i opens. */
static void add_block_edges(graph *g, const um_kinst *inst, uint32_t i, uint32_t outer)
{
    uint32_t node = flow_node(g, i);
    add_edge(g, flow_node(g, outer), node);
    for (int32_t a = 0; a < um_kinst_arity(inst); a++) add_edge(g, inst->arg[a], node);
    if (inst->op != UM_KOP_FOR) return;
    add_edge(g, inst->arg[0], i);
    add_edge(g, inst->arg[2], i);
    add_edge(g, node, i);
}

static void add_edges(graph *g)
{
    const um_kernel *k = g->k;
    uint32_t open[UM_KDEPTH_MAX + 1] = {0};
    int32_t depth = 0;
    for (uint32_t i = 1; i < k->inst_count; i++) {
        const um_kinst *inst = &k->inst[i];
        if (inst->op == UM_KOP_END) depth--;
        if (inst->op == UM_KOP_ELSE) {
            /* the flow of the if is as uniform as that of its else */
            g->block[i] = open[depth - 1];
            add_edge(g, flow_node(g, open[depth]), flow_node(g, i));
            open[depth] = i;
            continue;
        }
        g->block[i] = open[depth];
        if (um_kop_rows[inst->op].same <= UM_KSAME_MEMORY) /* they decide the value */
            for (int32_t a = 0; a < um_kinst_arity(inst); a++) add_edge(g, inst->arg[a], i);
        add_memory_edges(g, inst, i);
        if (inst->op == UM_KOP_BREAK) {
            int32_t loop = depth;
            while (k->inst[open[loop]].op != UM_KOP_FOR && k->inst[open[loop]].op != UM_KOP_LOOP)
                loop--;
            add_edge(g, flow_node(g, open[depth]), flow_node(g, open[loop]));
        }
        if (inst->op >= UM_KOP_IF && inst->op <= UM_KOP_LOOP) {
            add_block_edges(g, inst, i, open[depth]);
            open[++depth] = i;
        }
    }
}

/* ---- levels --------------------------------------------------------------------------------- */

/* What a value is whatever its operands are. */
static um_kuniform source_level(const um_kernel *k, const um_kinst *inst)
{
    switch ((um_ksame)um_kop_rows[inst->op].same) {
    case UM_KSAME_OPERANDS:
    case UM_KSAME_GROUP: return UM_UNIFORM_GROUP;
    case UM_KSAME_SUBGROUP: return UM_UNIFORM_SUBGROUP;
    case UM_KSAME_NOWHERE: return UM_VARYING;
    case UM_KSAME_MEMORY: break;
    }
    const um_kmem *m = &k->mem[inst->imm - 1];
    bool same = is_own(k, inst->imm) || (m->space == UM_SPACE_BUFFER && m->access == UM_K_READ);
    return same ? UM_UNIFORM_GROUP : UM_VARYING;
}

/* What comes to a node along an edge. One lane's value is the subgroup's. */
static um_kuniform pushed(const graph *g, uint32_t from, uint32_t to)
{
    um_kuniform level = g->level[from];
    if (to >= g->k->inst_count || g->k->inst[to].op != UM_KOP_SUBGROUP_SHUFFLE) return level;
    const um_kinst *inst = &g->k->inst[to];
    um_kuniform value = g->level[inst->arg[0]], lane = g->level[inst->arg[1]];
    return lane == UM_VARYING ? value : UM_MIN(value, UM_UNIFORM_SUBGROUP);
}

static void raise_levels(graph *g)
{
    uint32_t head = 0, tail = 0;
    for (uint32_t i = 1; i < g->k->inst_count; i++) {
        g->level[i] = (uint8_t)source_level(g->k, &g->k->inst[i]);
        g->cause[i] = i;
        if (g->level[i] != UM_UNIFORM_GROUP) g->queue[tail++] = i;
    }
    while (head < tail) {
        uint32_t from = g->queue[head++];
        for (uint32_t e = g->first[from]; e < g->first[from + 1]; e++) {
            uint32_t to = g->edge[e];
            um_kuniform level = pushed(g, from, to);
            if (g->level[to] >= level) continue;
            g->level[to] = (uint8_t)level;
            g->cause[to] = from;
            g->queue[tail++] = to;
        }
    }
}

/* ---- a graph's life ------------------------------------------------------------------------- */

static uint32_t *zeros(graph *g, size_t count)
{
    uint32_t *room = um_arena_alloc(&g->room, count * sizeof *room);
    if (room) memset(room, 0, count * sizeof *room);
    return room;
}

/* Counts the edges of each node, gives each its place, lays them. */
static bool graph_edges(graph *g)
{
    g->first = zeros(g, (size_t)g->count + 2);
    g->block = zeros(g, (size_t)g->k->inst_count);
    if (!g->first || !g->block) return false;
    add_edges(g);
    for (uint32_t n = 0; n <= g->count; n++) g->first[n + 1] += g->first[n];
    g->edge = zeros(g, (size_t)g->first[g->count + 1] + 1);
    if (!g->edge) return false;
    g->fill = true;
    add_edges(g);
    return true;
}

static um_status graph_make(graph *g, const um_kernel *k)
{
    *g = (graph){.k = k, .count = 2 * (uint32_t)k->inst_count + (uint32_t)k->mem_count};
    g->level = (uint8_t *)zeros(g, g->count / 4 + 1);
    g->cause = zeros(g, g->count);
    g->queue = zeros(g, 2 * (size_t)g->count);
    if (!g->level || !g->cause || !g->queue || !graph_edges(g)) {
        um_arena_release(&g->room);
        return UM_FAIL(UM_OUT_OF_MEMORY, "kernel %s: no memory to follow its flow", k->name);
    }
    raise_levels(g);
    return UM_OK;
}

um_status um_kernel_uniformity(const um_kernel *k, uint8_t *value, uint8_t *flow)
{
    graph g;
    UM_TRY(graph_make(&g, k));
    for (uint32_t i = 0; i < k->inst_count; i++) {
        value[i] = g.level[i];
        flow[i] = g.level[flow_node(&g, g.block[i])];
    }
    um_arena_release(&g.room);
    return UM_OK;
}

/* ---- what has to stand in uniform flow ------------------------------------------------------ */

static void node_text(const graph *g, uint32_t node, char out[80])
{
    uint32_t count = (uint32_t)g->k->inst_count;
    if (node < count)
        snprintf(out, 80, "%%%u %s", node, um_kop_rows[g->k->inst[node].op].name);
    else if (node < 2 * count)
        snprintf(out, 80, "the %s at %u", um_kop_rows[g->k->inst[node - count].op].name,
                 node - count);
    else
        snprintf(out, 80, "variable %s", g->k->mem[node - 2 * count].name);
}

/* From the node, a block or an operand of instruction i, back to the value that all began with; the
 * middle of a long way is left out. */
static um_status flow_error(const graph *g, uint32_t i, const char *what, uint32_t node,
                            um_kuniform want)
{
    char way[320] = "", text[UM_KTEXT_MAX], step[80];
    bool varying = g->level[node] == UM_VARYING;
    size_t length = 0;
    for (int32_t steps = 0;; steps++) {
        bool last = g->cause[node] == node;
        if (last || steps < 5) {
            node_text(g, node, step);
            length += (size_t)snprintf(way + length, sizeof way - length, "%s%s",
                                       steps ? " <- " : "", step);
            if (length >= sizeof way) length = sizeof way - 1;
        } else if (steps == 5) {
            length = UM_MIN(length, sizeof way - 80);
            length += (size_t)snprintf(way + length, sizeof way - length, " <- ...");
        }
        if (last) break;
        node = g->cause[node];
    }
    um_kinst_text(g->k, i, text);
    return UM_FAIL(UM_INVALID_ARGUMENT,
                   "kernel %s: instruction %u, %s: its %s %s; wanted the same in the whole %s: %s",
                   g->k->name, i, text, what,
                   varying ? "differs from invocation to invocation" : "differs between subgroups",
                   want == UM_UNIFORM_GROUP ? "work-group" : "subgroup", way);
}

um_status um_kernel_check_flow(const um_kernel *k)
{
    static const um_kuniform allowed[] = {[UM_KFLOW_ANY] = UM_VARYING,
                                          [UM_KFLOW_SUBGROUP] = UM_UNIFORM_SUBGROUP,
                                          [UM_KFLOW_GROUP] = UM_UNIFORM_GROUP};
    graph g;
    um_status status = UM_OK;
    bool needed = false;
    for (int64_t i = 1; i < k->inst_count; i++)
        needed = needed || um_kop_rows[k->inst[i].op].flow != UM_KFLOW_ANY;
    if (!needed) return UM_OK;
    UM_TRY(graph_make(&g, k));
    for (uint32_t i = 1; i < k->inst_count && status == UM_OK; i++) {
        um_kuniform want = allowed[um_kop_rows[k->inst[i].op].flow];
        uint32_t flow = flow_node(&g, g.block[i]), index = k->inst[i].arg[0];
        if (g.level[flow] > want)
            status = flow_error(&g, i, "flow", flow, want);
        else if (k->inst[i].op == UM_KOP_LOAD_UNIFORM && g.level[index] > UM_UNIFORM_GROUP)
            status = flow_error(&g, i, "index", index, UM_UNIFORM_GROUP);
    }
    um_arena_release(&g.room);
    return status;
}
