/* Count the instructions of one function by single steps: stepper OFFSET ENTRY PRELOAD -- program args...
 *
 * For programs that valgrind cannot run. OFFSET is the function's address in the program's file and ENTRY the file's entry point, both in
 * hexadecimal; PRELOAD is a path or "". The program runs freely until it first calls the function; from there to its return each
 * instruction of the calling thread is a step. Prints "STEPS n" on stderr. Linux on x86-64 alone. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;

static _Noreturn void stop(const char *what)
{
    fprintf(stderr, "stepper: %s: %s\n", what, strerror(errno));
    if (child > 0)
        kill(child, SIGKILL);
    exit(2);
}

/* Waits for the next stop; false when the program has ended. Signals of its own are handed on by the caller. */
static int next_stop(int *signal_number)
{
    int status;
    if (waitpid(child, &status, 0) < 0)
        stop("waitpid");
    *signal_number = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
    return WIFSTOPPED(status);
}

static unsigned long loaded_entry(void)
{
    char path[64];
    Elf64_auxv_t one;
    snprintf(path, sizeof path, "/proc/%d/auxv", child);
    int file = open(path, O_RDONLY);
    while (file >= 0 && read(file, &one, sizeof one) == (ssize_t)sizeof one)
        if (one.a_type == AT_ENTRY) {
            close(file);
            return one.a_un.a_val;
        }
    stop("auxv");
}

static void run_to(unsigned long address, struct user_regs_struct *registers)
{
    int number;
    errno = 0;
    long word = ptrace(PTRACE_PEEKTEXT, child, (void *)address, NULL);
    if (errno || ptrace(PTRACE_POKETEXT, child, (void *)address, (void *)((word & ~0xffL) | 0xcc)))
        stop("break point");
    if (ptrace(PTRACE_CONT, child, NULL, NULL) || !next_stop(&number) || number != SIGTRAP)
        stop("the function was not reached");
    if (ptrace(PTRACE_GETREGS, child, NULL, registers) || registers->rip != address + 1)
        stop("stopped elsewhere");
    registers->rip = address;
    if (ptrace(PTRACE_POKETEXT, child, (void *)address, (void *)word) || ptrace(PTRACE_SETREGS, child, NULL, registers))
        stop("registers");
}

int main(int argc, char **argv)
{
    struct user_regs_struct registers;
    unsigned long steps = 0;
    int number = 0;
    if (argc < 6 || strcmp(argv[4], "--") != 0) {
        fputs("usage: stepper OFFSET ENTRY PRELOAD -- program args...\n", stderr);
        return 2;
    }
    child = fork();
    if (child < 0)
        stop("fork");
    if (child == 0) {
        if (*argv[3])
            setenv("LD_PRELOAD", argv[3], 1);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execv(argv[5], argv + 5);
        stop(argv[5]);
    }
    if (!next_stop(&number))
        stop("exec");
    run_to(loaded_entry() - strtoul(argv[2], NULL, 16) + strtoul(argv[1], NULL, 16), &registers);
    unsigned long frame = registers.rsp;
    do {
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, (void *)(long)(number == SIGTRAP ? 0 : number)) || !next_stop(&number))
            stop("step");
        steps++;
        if (ptrace(PTRACE_GETREGS, child, NULL, &registers))
            stop("registers");
    } while (registers.rsp <= frame);
    if (ptrace(PTRACE_DETACH, child, NULL, NULL) || waitpid(child, &number, 0) < 0)
        stop("the end");
    fprintf(stderr, "STEPS %lu\n", steps);
    return WIFEXITED(number) && WEXITSTATUS(number) == 0 ? 0 : 1;
}
