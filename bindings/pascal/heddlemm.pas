{ Heddle as the memory manager of a Pascal program: name this unit first in the program's uses clause, before cthreads.

  What it owns: the TMemoryManager record of the program, from its initialization to the very end. It is not taken out again at
  exit, because units that were finalized later still free. Blocks that an earlier manager handed out are recognised by their
  address and go back to that manager.

  Blocks have no header, lie at multiples of 16, and MemSize is all that the block holds: strings and arrays grow into it.
  A pointer that is no live block (freed twice, from inside a block) gives run-time error 204, which SysUtils turns into
  EInvalidPointer, after a line on stderr that says what it was. No memory gives 203, EOutOfMemory.

  Compile with -dHEDDLE_SHARED to link to libheddle.so instead of libheddle.a. Then C libraries in the process use Heddle too,
  and a program and its dynamic libraries may hand each other strings and objects.

  HEDDLEMM=leaks or HEDDLEMM=leaks:FILE in the environment reports at exit what was not freed; HEDDLEMM=sites[:FILE] also
  says where it was allocated, and is slow. Free Pascal 3.2 and later; the parts for Delphi compile under its rules.

  SPDX-License-Identifier: MIT }
unit heddlemm;

{$ifdef FPC}
  {$mode delphi}{$modeswitch cvar+}{$H+}
  {$ifndef CPU64}{$fatal heddlemm needs a 64-bit processor}{$endif}
  {$ifndef HEDDLE_SHARED}
    {$linklib libheddle.a}
  {$else}
    {$linklib heddle}
  {$endif}
  {$linklib pthread}{$linklib dl}{$linklib c}
{$endif}
{$ifdef MSWINDOWS}{$message fatal 'heddlemm is for POSIX systems'}{$endif}
{$pointermath on}

interface

type
{$ifndef FPC}
  PtrUInt = NativeUInt;
  PtrInt = NativeInt;
  CodePointer = Pointer;
{$endif}

  { hd_stats of heddle.h: where memory is, in bytes unless the name says count. }
  THeddleStats = record
    Version, StructBytes, Live, LiveCount, FreeInPages, Large, Cached, Metadata, Mapped, Reserved, PurgedTotal, PageCount,
    HeapCount, OrphanCount, OsCallCount, MovedTotal, Resident, Objects, ObjectCount: PtrUInt;
  end;

{ A picture of the whole heap, taken while all threads go on. Any thread; cost grows with the number of pages, not of blocks. }
function HeddleStats: THeddleStats;

{ The same as a table of text, and the library's version. }
function HeddleStatsText: AnsiString;
function HeddleVersion: AnsiString;

{ Set an option of heddle-options(7) while running. False: there is none of this name, or it can't have this value, or not now. }
function HeddleOption(const Name, Value: AnsiString): Boolean;

{ Give free memory back to the system now, but for KeepBytes. True when there was some. }
function HeddleCollect(KeepBytes: PtrUInt = 0): Boolean;

{$ifdef FPC}
var
  { Report at exit what was not freed. Set by HEDDLEMM=leaks too. }
  ReportMemoryLeaksOnShutdown: Boolean = False;
{$endif}

var
  { Where the report is appended to; empty: stderr. }
  LeakReportFile: ShortString = '';

{ Blocks that are meant to live to the end and shall not be reported. By address; by class, with how many instances; by the size asked
  for, with how many. Each True when it was noted, or was found. Any thread. }
function RegisterExpectedMemoryLeak(P: Pointer): Boolean; overload;
function RegisterExpectedMemoryLeak(AClass: TClass; Count: Integer = 1): Boolean; overload;
function RegisterExpectedMemoryLeak(Size: PtrUInt; Count: Integer): Boolean; overload;
function UnregisterExpectedMemoryLeak(P: Pointer): Boolean; overload;
function UnregisterExpectedMemoryLeak(AClass: TClass; Count: Integer = 1): Boolean; overload;
function UnregisterExpectedMemoryLeak(Size: PtrUInt; Count: Integer): Boolean; overload;

{ Write the report now; True when there was something to say. The blocks that are live at that moment are taken for leaks. }
function ReportLeaks: Boolean;

implementation

{ ---- the library ------------------------------------------------------------------------------------------------------- }

type
  THdArea = record
    Heap, Address: Pointer;
    Bytes, BlockBytes, BlockCapacity, BlockUsed: PtrUInt;
    Kind: Integer;
    Name: PAnsiChar;
  end;
  PHdArea = ^THdArea;
  THdVisitor = function(Area: PHdArea; Block: Pointer; BlockBytes: PtrUInt; User: Pointer): Boolean; cdecl;

const
{$if not defined(FPC)}
  LibHeddle = 'libheddle.so';
  LibC = 'libc.so.6';
{$elseif defined(HEDDLE_SHARED)}
  LibHeddle = 'heddle';
  LibC = 'c';
{$else}
  LibHeddle = 'c'; { a name only adds a library to search; the archive is named above }
  LibC = 'c';
{$ifend}

function hd_malloc(Bytes: PtrUInt): Pointer; cdecl; external LibHeddle;
function hd_zalloc(Bytes: PtrUInt): Pointer; cdecl; external LibHeddle;
function hd_realloc(P: Pointer; Bytes: PtrUInt): Pointer; cdecl; external LibHeddle;
procedure hd_free(P: Pointer); cdecl; external LibHeddle;
function hd_usable_size(P: Pointer): PtrUInt; cdecl; external LibHeddle;
function hd_good_size(Bytes: PtrUInt): PtrUInt; cdecl; external LibHeddle;
function hd_owns(P: Pointer): Boolean; cdecl; external LibHeddle;
function hd_heap_walk(Heap: Pointer; Blocks: Boolean; Visitor: THdVisitor; User: Pointer): Boolean; cdecl; external LibHeddle;
function hd_collect(KeepBytes: PtrUInt): Boolean; cdecl; external LibHeddle;
function hd_option_set(Name, Value: PAnsiChar): Integer; cdecl; external LibHeddle;
function hd_stats_get(var Stats: THeddleStats): Boolean; cdecl; external LibHeddle;
function hd_stats_text(Buffer: PAnsiChar; Bytes: PtrUInt): PtrUInt; cdecl; external LibHeddle;
function hd_version_text: PAnsiChar; cdecl; external LibHeddle;
function hd_override_active(Reason: PPAnsiChar): Boolean; cdecl; external LibHeddle;
function c_open(Name: PAnsiChar; Flags, Mode: Integer): Integer; cdecl; external LibC name 'open';
function c_close(Handle: Integer): Integer; cdecl; external LibC name 'close';
function c_write(Handle: Integer; Buffer: Pointer; Bytes: PtrUInt): PtrInt; cdecl; external LibC name 'write';
function c_memcpy(Target, Source: Pointer; Bytes: PtrUInt): Pointer; cdecl; external LibC name 'memcpy';
function c_getenv(Name: PAnsiChar): PAnsiChar; cdecl; external LibC name 'getenv';
function c_dladdr(Address, Info: Pointer): Integer; cdecl; external LibC name 'dladdr';

{$ifdef FPC}
type
  THdMisuseHook = procedure(P: Pointer; Code: PAnsiChar); cdecl;

procedure hd_misuse_hook_set(Hook: THdMisuseHook); cdecl; weakexternal LibHeddle;

{ Weaker than the environment and the options file: misuse ends in a run-time error here, and not in an abort there. }
var
  heddle_options: PAnsiChar = 'onerror:report'; cvar; export;
{$endif}

{ ---- errors ------------------------------------------------------------------------------------------------------------ }

type
  { A report is put together here, without any allocation, and leaves line by line. }
  TLine = ShortString;

function Hex(P: Pointer): TLine;
const
  Digits: array[0..15] of AnsiChar = '0123456789abcdef';
var
  Value: PtrUInt;
begin
  Value := PtrUInt(P);
  Result := '';
  repeat
    Result := Digits[Value and 15] + Result;
    Value := Value shr 4;
  until Value = 0;
  Result := '0x' + Result;
end;

procedure WriteLine(Handle: Integer; const Text: TLine);
var
  Line: TLine;
begin
  Line := Text + #10;
  c_write(Handle, @Line[1], Length(Line));
end;

{ With stack frames, so that the way of the call can be followed through them. }
{$push}{$W+}

{ An exception where SysUtils is there to make one, else the end of the program. }
procedure Fail(Code: Integer);
begin
{$ifdef FPC}
  if Assigned(ErrorProc) then ErrorProc(Code, get_caller_addr(get_frame), get_caller_frame(get_frame));
  RunError(Code);
{$else}
  if Code = 203 then System.Error(reOutOfMemory) else System.Error(reInvalidPtr);
{$endif}
end;

var
  Misused: Pointer; { what the library said of last, while FreeMem does not know it yet }

procedure NoteMisuse(P: Pointer; Code: PAnsiChar); cdecl;
begin
  Misused := P;
end;

procedure InvalidPointer(const Verb: TLine; P: Pointer);
begin
  Misused := nil;
  WriteLine(2, 'heddlemm: ' + Verb + ' of ' + Hex(P) + ', which is no live block: run-time error 204');
  Fail(204);
end;

function NoMemory: Pointer;
begin
  Result := nil;
  {$ifdef FPC}if not ReturnNilIfGrowHeapFails then{$endif} Fail(203);
end;

{$pop}

{ ---- the manager ------------------------------------------------------------------------------------------------------- }

const
  SmallMax = 1024;
  MediumMax = 64 * 1024;

var
  Old: {$ifdef FPC}TMemoryManager{$else}TMemoryManagerEx{$endif};
  OldAlive: Boolean = True; { whether blocks of the old manager may be out there }
  WithCare: Boolean = True;

function IsOld(P: Pointer): Boolean; inline;
begin
  Result := OldAlive and not hd_owns(P);
end;

function HeddleGetMem(Size: {$ifdef FPC}PtrUInt{$else}PtrInt{$endif}): Pointer;
begin
  Result := hd_malloc(Size);
  if Result = nil then Result := NoMemory;
end;

function HeddleAllocMem(Size: {$ifdef FPC}PtrUInt{$else}PtrInt{$endif}): Pointer;
begin
  Result := hd_zalloc(Size);
  if Result = nil then Result := NoMemory;
end;

{$ifdef FPC}

{ Where the old manager's blocks are still about, or the library can't say what it thinks of a pointer. }
function FreeWithCare(P: Pointer): PtrUInt;
begin
  Result := 0;
  if IsOld(P) then Exit(Old.FreeMem(P));
  if hd_usable_size(P) = 0 then InvalidPointer('FreeMem', P) else hd_free(P);
end;

{ 0, or what the old manager says: nobody asks how much was freed, and to find out would double the cost. }
function HeddleFreeMem(P: Pointer): PtrUInt;
begin
  Result := 0;
  if P = nil then Exit;
  if WithCare then Exit(FreeWithCare(P));
  hd_free(P);
  if Misused = P then InvalidPointer('FreeMem', P);
end;

{ A block of GetMem(0), perhaps. }
function IsEmptyBlock(P: Pointer): Boolean;
begin
  Result := hd_owns(P) and (hd_usable_size(P) = hd_good_size(0));
  Misused := nil; { it may be anything at all, and that is no error here }
end;

{ Free Pascal's own manager leaves the pointer alone when the size is 0, and programs rely on it: it may never have been set. }
function HeddleFreeMemSize(P: Pointer; Size: PtrUInt): PtrUInt;
begin
  if (Size = 0) and not IsEmptyBlock(P) then Exit(0);
  Result := HeddleFreeMem(P);
end;

function HeddleMemSize(P: Pointer): PtrUInt;
begin
  if IsOld(P) and (P <> nil) then Exit(Old.MemSize(P));
  Result := hd_usable_size(P);
  if (Result = 0) and (P <> nil) then InvalidPointer('MemSize', P);
end;

function MoveFromOld(P: Pointer; Size: PtrUInt): Pointer;
var
  Bytes: PtrUInt;
begin
  Result := HeddleGetMem(Size);
  if Result = nil then Exit;
  Bytes := Old.MemSize(P);
  if Bytes > Size then Bytes := Size;
  Move(P^, Result^, Bytes);
  Old.FreeMem(P);
end;

{ No block, no size, or a block of the old manager. }
function ReallocOther(var P: Pointer; Size: PtrUInt): Pointer;
begin
  Result := nil;
  if Size = 0 then HeddleFreeMem(P)
  else if P = nil then Result := HeddleGetMem(Size)
  else Result := MoveFromOld(P, Size);
  if (Result <> nil) or (Size = 0) then P := Result;
end;

{ A block that has to grow gets a quarter more than it has, a large one a sixteenth: most blocks that grow once grow again. }
function Grown(Usable: PtrUInt): PtrUInt; inline;
begin
  if Usable <= MediumMax then Result := Usable + Usable div 4 else Result := Usable + Usable div 16;
end;

{ What there was no memory for with a growth's slack. When there is none at all, nil or an exception; the block stays what it was. }
function ReallocTight(P: Pointer; Size: PtrUInt): Pointer;
begin
  Result := hd_realloc(P, Size);
  if Result = nil then Result := NoMemory;
end;

{ What hd_realloc would do, without finding the block again. }
function MoveSmall(P: Pointer; Usable, Size, Wanted: PtrUInt): Pointer;
begin
  Result := hd_malloc(Wanted);
  if Result = nil then Exit;
  if Size < Usable then Usable := Size;
  c_memcpy(Result, P, Usable);
  hd_free(P);
end;

{ A block stays where it is when the size fits it and fills half of it (a quarter, if it is small). }
function HeddleReallocMem(var P: Pointer; Size: PtrUInt): Pointer;
var
  Usable, Wanted: PtrUInt;
begin
  Result := P;
  if (Result = nil) or (Size = 0) or IsOld(Result) then Exit(ReallocOther(P, Size));
  Usable := hd_usable_size(Result);
  Wanted := Size;
  if Size <= Usable then begin
    if (Size >= Usable div 2) or ((Usable <= SmallMax) and (Size >= Usable div 4)) then Exit;
  end else if Usable = 0 then InvalidPointer('ReallocMem', Result)
  else if Grown(Usable) > Size then Wanted := Grown(Usable);
  if Usable <= SmallMax then Result := MoveSmall(Result, Usable, Size, Wanted) else Result := hd_realloc(Result, Wanted);
  if Result = nil then Result := ReallocTight(P, Size);
  if Result <> nil then P := Result;
end;

{ Threads begin and end in Heddle without being told. The old manager is told: its blocks may be freed by any of them. }
procedure HeddleInitThread;
begin
  if Assigned(Old.InitThread) then Old.InitThread;
end;

procedure HeddleDoneThread;
begin
  if Assigned(Old.DoneThread) then Old.DoneThread;
end;

procedure HeddleRelocateHeap;
begin
  if Assigned(Old.RelocateHeap) then Old.RelocateHeap;
end;

var
  MaxSize, MaxUsed: PtrUInt; { the most that was seen when somebody asked }

procedure Raise_(var Most: PtrUInt; Value: PtrUInt);
var
  Seen: PtrUInt;
begin
  repeat
    Seen := Most;
  until (Value <= Seen) or (PtrUInt(InterlockedCompareExchange64(Int64(Most), Int64(Value), Int64(Seen))) = Seen);
end;

function HeddleHeapStatus: THeapStatus;
var
  Stats: THeddleStats;
begin
  Stats := HeddleStats;
  FillChar(Result, SizeOf(Result), 0);
  Result.TotalAddrSpace := Stats.Mapped;
  Result.TotalCommitted := Stats.Live + Stats.FreeInPages + Stats.Cached;
  Result.TotalUncommitted := Stats.Mapped - Result.TotalCommitted;
  Result.TotalAllocated := Stats.Live;
  Result.TotalFree := Stats.FreeInPages + Stats.Cached;
  Result.FreeSmall := Stats.FreeInPages;
  Result.FreeBig := Stats.Cached;
  Result.Overhead := Stats.Metadata;
end;

function HeddleFPCHeapStatus: TFPCHeapStatus;
var
  Stats: THeddleStats;
begin
  Stats := HeddleStats;
  Result.CurrHeapUsed := Stats.Live;
  Result.CurrHeapFree := Stats.FreeInPages + Stats.Cached;
  Result.CurrHeapSize := Result.CurrHeapUsed + Result.CurrHeapFree;
  Raise_(MaxSize, Result.CurrHeapSize);
  Raise_(MaxUsed, Result.CurrHeapUsed);
  Result.MaxHeapSize := MaxSize;
  Result.MaxHeapUsed := MaxUsed;
end;

{$else}

function HeddleFreeMem(P: Pointer): Integer;
begin
  if IsOld(P) then Exit(Old.FreeMem(P));
  Result := Ord(hd_usable_size(P) = 0);
  if Result = 0 then hd_free(P) else InvalidPointer('FreeMem', P);
end;

function HeddleReallocMem(P: Pointer; Size: PtrInt): Pointer;
begin
  if IsOld(P) then Exit(Old.ReallocMem(P, Size));
  Result := hd_realloc(P, Size);
  if Result = nil then Result := NoMemory;
end;

{$endif}

{$include heddleleaks.inc}

{ ---- looking at the heap ------------------------------------------------------------------------------------------------- }

function HeddleStats: THeddleStats;
begin
  FillChar(Result, SizeOf(Result), 0);
  Result.StructBytes := SizeOf(Result);
  hd_stats_get(Result);
end;

function HeddleStatsText: AnsiString;
begin
  SetLength(Result, 8191);
  SetLength(Result, hd_stats_text(PAnsiChar(Result), Length(Result) + 1));
end;

function HeddleVersion: AnsiString;
begin
  Result := hd_version_text;
end;

function HeddleOption(const Name, Value: AnsiString): Boolean;
begin
  Result := hd_option_set(PAnsiChar(Name), PAnsiChar(Value)) = 0;
end;

function HeddleCollect(KeepBytes: PtrUInt): Boolean;
begin
  Result := hd_collect(KeepBytes);
end;

{ ---- start and end ------------------------------------------------------------------------------------------------------- }

{ Text is the value of HEDDLEMM: a word, and after a colon a file. }
procedure ReadOrders(Text: PAnsiChar);
var
  Order: TLine;
begin
  if Text = nil then Exit;
  Order := '';
  while (Text^ <> #0) and (Text^ <> ':') do begin
    Order := Order + Text^;
    Inc(Text);
  end;
  if Text^ = ':' then LeakReportFile := ShortString(Text + 1);
  SitesOn := Order = 'sites';
  if SitesOn or (Order = 'leaks') then ReportMemoryLeaksOnShutdown := True
  else if Order <> '' then WriteLine(2, 'heddlemm: HEDDLEMM is leaks, leaks:FILE, sites or sites:FILE, and not "' + Order + '"');
end;

{$ifdef FPC}
{ Of a manager that is not the system's own nobody knows. }
function OldHasBlocks: Boolean;
begin
  Result := (CodePointer(@Old.GetMem) <> CodePointer(@SysGetMem)) or (Old.GetFPCHeapStatus().CurrHeapUsed > 0);
end;

{ Under valgrind Heddle passes everything on to the C library, and can't tell its blocks from those of the old manager. }
function IsPassthrough: Boolean;
var
  Probe: Pointer;
begin
  Probe := hd_malloc(1);
  Result := not hd_owns(Probe);
  hd_free(Probe);
end;

procedure Install;
var
  New: TMemoryManager;
begin
  GetMemoryManager(Old);
  OldAlive := OldHasBlocks;
  if OldAlive and IsPassthrough then Exit;
  New := Old;
  New.GetMem := HeddleGetMem;
  New.FreeMem := HeddleFreeMem;
  New.FreeMemSize := HeddleFreeMemSize;
  New.AllocMem := HeddleAllocMem;
  New.ReAllocMem := HeddleReallocMem;
  New.MemSize := HeddleMemSize;
  New.InitThread := HeddleInitThread;
  New.DoneThread := HeddleDoneThread;
  New.RelocateHeap := HeddleRelocateHeap;
  New.GetHeapStatus := HeddleHeapStatus;
  New.GetFPCHeapStatus := HeddleFPCHeapStatus;
  if SitesOn then begin
    New.GetMem := SitesGetMem;
    New.FreeMem := SitesFreeMem;
    New.FreeMemSize := SitesFreeMemSize;
    New.AllocMem := SitesAllocMem;
    New.ReAllocMem := SitesReallocMem;
  end;
  SetMemoryManager(New);
end;
{$else}
function RegisterBlock(P: Pointer): Boolean;
begin
  Result := RegisterExpectedMemoryLeak(P);
end;

function UnregisterBlock(P: Pointer): Boolean;
begin
  Result := UnregisterExpectedMemoryLeak(P);
end;

procedure Install;
var
  New: TMemoryManagerEx;
begin
  GetMemoryManager(Old);
  New.GetMem := HeddleGetMem;
  New.FreeMem := HeddleFreeMem;
  New.ReallocMem := HeddleReallocMem;
  New.AllocMem := HeddleAllocMem;
  New.RegisterExpectedMemoryLeak := RegisterBlock;
  New.UnregisterExpectedMemoryLeak := UnregisterBlock;
  SetMemoryManager(New);
end;
{$endif}

{ Without the hook, in an older library, each pointer is looked at before it is freed. }
procedure Listen;
begin
{$ifdef FPC}
  WithCare := OldAlive or (@hd_misuse_hook_set = nil);
  if @hd_misuse_hook_set <> nil then hd_misuse_hook_set(NoteMisuse);
{$endif}
end;

initialization
  ReadOrders(c_getenv('HEDDLEMM'));
  if hd_override_active(nil) then NoteOthers;
  Install;
  Listen;

finalization
  if ReportMemoryLeaksOnShutdown then ReportLeaks;
end.
