/* umbel/umbel.h: all of it. */
#ifndef UMBEL_UMBEL_H
#define UMBEL_UMBEL_H

#include <umbel/backend.h>
#include <umbel/base.h>
#include <umbel/compute.h>
#include <umbel/device.h>
#include <umbel/graph.h>
#include <umbel/kernel.h>
#include <umbel/layer.h>
#include <umbel/llm.h>
#include <umbel/op.h>
#include <umbel/plugin.h>
#include <umbel/select.h>
#include <umbel/static.h>
#include <umbel/tensor.h>

#endif
