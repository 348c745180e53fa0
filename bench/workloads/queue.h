/* A bounded queue of pointers with a lock and two conditions, used by the workloads that pass blocks between threads. */
#ifndef HEDDLE_BENCH_QUEUE_H
#define HEDDLE_BENCH_QUEUE_H

#include "common.h"

enum { QUEUE_ROOM = 128 };

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    void *item[QUEUE_ROOM];
    size_t head, count;
    bool closed;
} bench_queue;

#define BENCH_QUEUE_INIT {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, {NULL}, 0, 0, false}

/* With the lock; there is room. */
static inline void queue_push(bench_queue *queue, void *item)
{
    queue->item[(queue->head + queue->count++) % QUEUE_ROOM] = item;
    pthread_cond_signal(&queue->not_empty);
}

/* With the lock; NULL if it is empty. */
static inline void *queue_pop(bench_queue *queue)
{
    if (queue->count == 0)
        return NULL;
    void *item = queue->item[queue->head];
    queue->head = (queue->head + 1) % QUEUE_ROOM;
    queue->count--;
    pthread_cond_signal(&queue->not_full);
    return item;
}

static inline void queue_put(bench_queue *queue, void *item)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->count == QUEUE_ROOM)
        pthread_cond_wait(&queue->not_full, &queue->lock);
    queue_push(queue, item);
    pthread_mutex_unlock(&queue->lock);
}

/* NULL once the queue is closed and empty. */
static inline void *queue_take(bench_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->count == 0 && !queue->closed)
        pthread_cond_wait(&queue->not_empty, &queue->lock);
    void *item = queue_pop(queue);
    pthread_mutex_unlock(&queue->lock);
    return item;
}

/* Without waiting; false: as many as `room` lie in it, which is QUEUE_ROOM or less. */
static inline bool queue_try_put(bench_queue *queue, void *item, size_t room)
{
    pthread_mutex_lock(&queue->lock);
    bool done = queue->count < room;
    if (done)
        queue_push(queue, item);
    pthread_mutex_unlock(&queue->lock);
    return done;
}

/* The same; NULL if nothing lies in it. */
static inline void *queue_try_take(bench_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    void *item = queue_pop(queue);
    pthread_mutex_unlock(&queue->lock);
    return item;
}

static inline void queue_close(bench_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->not_empty);
    pthread_mutex_unlock(&queue->lock);
}

#endif
